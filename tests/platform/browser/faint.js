// The elements below `output` whose words stand out less than 3:1 from what is behind them (WCAG 2.1, 1.4.3, large text).
output => {
    const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
    const rgba = colour => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] / 255 + below[i] * (1 - top[3] / 255));
    const behind = e => {
        if (!e) return [255, 255, 255];
        const own = rgba(getComputedStyle(e).backgroundColor);
        return own[3] === 255 ? own : over(own, behind(e.parentElement));
    };
    const light = c => {
        const [r, g, b] = [0, 1, 2].map(i => c[i] / 255).map(v => v <= 0.04 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const contrast = e => {
        const back = behind(e);
        const pair = [light(over(rgba(getComputedStyle(e).color), back)), light(back)];
        return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    };
    const words = e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    const shown = e => !["STYLE", "SCRIPT"].includes(e.tagName) && e.getClientRects().length;
    return [...output.querySelectorAll("*")].filter(e => words(e) && shown(e) && contrast(e) < 3)
        .map(e => `${contrast(e).toFixed(1)}: ${e.outerHTML.slice(0, 120)}`);
}
