"""From overrides to parts: compose, check, build, sweep grid."""
