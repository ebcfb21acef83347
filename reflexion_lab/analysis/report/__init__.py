"""Tables and pages in a terminal, Markdown, HTML and LaTeX."""
