"use strict";
(() => {
  const root = document.documentElement;
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const coarse = matchMedia("(pointer: coarse)");
  const toggle = document.getElementById("theme");
  const config = {
    displayModeBar: matchMedia("(hover: hover)").matches ? "hover" : false,
    displaylogo: false,
    showSendToCloud: false,
    modeBarButtons: [["toImage"], ["zoom2d", "pan2d", "resetScale2d"]], // no button sends data
  };
  let isPrinting = false;
  let latestDrawing = 0; // its number; a newer drawing ends older ones

  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);

  // Returns placeholder -> current colour of the style sheet.
  function currentColours() {
    const probe = document.body.appendChild(document.createElement("span"));
    const colours = {};
    const names = { "@text": "text", "@grid": "line", "@background": "background", "@muted": "muted" };
    for (const [token, name] of Object.entries(names)) {
      probe.style.color = `var(--${name})`;
      colours[token] = getComputedStyle(probe).color;
    }
    probe.remove();
    return colours;
  }

  // Returns a value with its placeholders replaced by colours.
  function withColours(value, colours) {
    if (typeof value === "string") return colours[value] ?? value;
    if (Array.isArray(value)) return value.map((item) => withColours(item, colours));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withColours(item, colours)]));
  }

  async function draw(overrides = {}, pause = true) {
    const drawing = ++latestDrawing;
    const colours = currentColours();
    delete root.dataset.drawn;
    for (const [id, figure] of Object.entries(charts)) {
      if (!document.getElementById(id).offsetWidth) continue; // in a closed part; labels would have no size
      const { data, layout } = withColours(figure, colours);
      if (coarse.matches) layout.dragmode = false; // a finger scrolls the page
      const label = { bgcolor: colours["@background"], bordercolor: colours["@grid"], font: { color: colours["@text"] } };
      layout.hoverlabel = { ...layout.hoverlabel, ...label };
      layout.modebar = { bgcolor: "rgba(0,0,0,0)", color: colours["@muted"], activecolor: colours["@text"] };
      const chart = Plotly.react(id, data, { ...layout, ...overrides }, config);
      if (!pause) continue;
      await chart;
      await new Promise((resolve) => setTimeout(resolve));
      if (drawing !== latestDrawing) return;
    }
    root.dataset.drawn = document.querySelectorAll(".js-plotly-plot").length;
  }

  // charts follow the width of their place, whatever changes it
  const sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) if (target.data && target.offsetWidth && !isPrinting) Plotly.Plots.resize(target);
  });
  for (const id of Object.keys(charts)) sizes.observe(document.getElementById(id));

  function openTarget() {
    const part = document.getElementById(location.hash.slice(1))?.closest("details");
    if (part) part.open = true;
  }

  function applyTheme() {
    toggle.textContent = isDark() ? "Light mode" : "Dark mode";
    draw();
  }

  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    applyTheme();
  });
  dark.addEventListener("change", () => root.dataset.theme || applyTheme());

  for (const part of document.querySelectorAll(".part")) part.addEventListener("toggle", () => isPrinting || draw());
  for (const link of document.querySelectorAll("nav a")) link.addEventListener("click", () => setTimeout(openTarget));
  addEventListener("hashchange", openTarget);
  openTarget();

  let screenTheme, closedDetails; // restored after printing
  addEventListener("beforeprint", () => {
    isPrinting = true;
    screenTheme = root.dataset.theme;
    closedDetails = [...document.querySelectorAll("details:not([open])")];
    root.dataset.theme = "light";
    for (const details of closedDetails) details.open = true;
    draw({ width: 660 }, false);
  });
  addEventListener("afterprint", () => {
    isPrinting = false;
    for (const details of closedDetails) details.open = false;
    if (screenTheme) root.dataset.theme = screenTheme;
    else delete root.dataset.theme;
    draw();
  });

  async function copy(text, source) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      getSelection().selectAllChildren(source);
      document.execCommand("copy");
    }
  }
  for (const pre of document.querySelectorAll(".code pre")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await copy(pre.textContent, pre);
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
    pre.before(button);
  }

  applyTheme();
})();
