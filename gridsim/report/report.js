"use strict";
(() => {
  const root = document.documentElement;
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const coarse = matchMedia("(pointer: coarse)");
  const toggle = document.getElementById("theme");
  const config = {
    responsive: true,
    displayModeBar: matchMedia("(hover: hover)").matches ? "hover" : false,
    displaylogo: false,
    showSendToCloud: false,
    modeBarButtons: [["toImage"], ["zoom2d", "pan2d", "resetScale2d"]], // none that sends anything
  };
  let turn = 0; // of drawing: a newer one ends those before

  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);

  // The colours of the page, as the style sheet has them now, for what stands for them in the charts.
  function colours() {
    const probe = document.body.appendChild(document.createElement("span"));
    const found = {};
    const names = { "@text": "text", "@grid": "line", "@ground": "ground", "@muted": "muted" };
    for (const [token, name] of Object.entries(names)) {
      probe.style.color = `var(--${name})`;
      found[token] = getComputedStyle(probe).color;
    }
    probe.remove();
    return found;
  }

  function filled(value, given) {
    if (typeof value === "string") return given[value] ?? value;
    if (Array.isArray(value)) return value.map((item) => filled(item, given));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, filled(item, given)]));
  }

  async function draw(more = {}, pause = true) {
    const mine = ++turn;
    const given = colours();
    delete root.dataset.drawn;
    for (const [id, figure] of Object.entries(charts)) {
      const { data, layout } = filled(figure, given);
      if (coarse.matches) layout.dragmode = false; // a finger scrolls the page
      const label = { bgcolor: given["@ground"], bordercolor: given["@grid"], font: { color: given["@text"] } };
      layout.hoverlabel = { ...layout.hoverlabel, ...label };
      layout.modebar = { bgcolor: "rgba(0,0,0,0)", color: given["@muted"], activecolor: given["@text"] };
      const drawn = Plotly.react(id, data, { ...layout, ...more }, config);
      if (!pause) continue;
      await drawn;
      await new Promise((resolve) => setTimeout(resolve));
      if (mine !== turn) return;
    }
    root.dataset.drawn = Object.keys(charts).length;
  }

  function themed() {
    toggle.textContent = isDark() ? "Light mode" : "Dark mode";
    draw();
  }

  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    themed();
  });
  dark.addEventListener("change", () => root.dataset.theme || themed());

  let before = [];
  addEventListener("beforeprint", () => {
    before = [root.dataset.theme, [...document.querySelectorAll("details:not([open])")]];
    root.dataset.theme = "light";
    for (const each of before[1]) each.open = true;
    draw({ width: 660 }, false);
  });
  addEventListener("afterprint", () => {
    for (const each of before[1]) each.open = false;
    if (before[0]) root.dataset.theme = before[0];
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

  themed();
})();
