// Draws the pictures of a page with Plotly, which is loaded when the first of them is seen.
(() => {
  "use strict";

  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "star", "hexagon", "x"];
  const DASHES = ["solid", "dot", "dash", "longdash", "dashdot", "longdashdot"];
  let library = null;

  function load(address) {
    library ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = address;
      script.onload = () => resolve(window.Plotly);
      script.onerror = () => reject(new Error(`${address} could not be loaded`));
      document.head.append(script);
    });
    return library;
  }

  function colours() {
    const style = getComputedStyle(document.documentElement);
    const named = (name) => style.getPropertyValue(name).trim();
    return {
      ink: named("--ink"), soft: named("--soft"), line: named("--line"), page: named("--page"),
      limit: named("--error"), parts: [0, 1, 2, 3, 4, 5, 6, 7].map((n) => named(`--p${n}`)),
    };
  }

  function trace(series, number, theme) {
    const colour = theme.parts[number % theme.parts.length];
    const common = {
      name: series.name, x: series.x, y: series.y, text: series.texts, customdata: series.links,
      hoverinfo: series.texts.length ? "text" : "skip",
    };
    if (series.drawn === "bars") return { ...common, type: "bar", textposition: "none", marker: { color: colour } };
    if (series.drawn === "dashes") {
      return { ...common, type: "scatter", mode: "lines", line: { color: theme.soft, dash: "dash", width: 1 } };
    }
    const symbol = SYMBOLS[number % SYMBOLS.length];
    const hollow = series.x.map((_, at) => series.hollow[at] === true);
    return {
      ...common, type: "scatter", mode: series.drawn === "dots" ? "markers" : "lines+markers",
      line: { color: colour, width: 2, dash: DASHES[number % DASHES.length] },
      marker: {
        color: hollow.map((is) => (is ? theme.page : colour)), symbol, size: 9,
        line: { color: colour, width: 2 },
      },
    };
  }

  function marks(picture, theme) {
    const across = (mark) => (mark.axis === "y"
      ? { xref: "paper", x0: 0, x1: 1, y0: mark.value, y1: mark.value }
      : { yref: "paper", y0: 0, y1: 1, x0: mark.value, x1: mark.value });
    const at = ({ axis, value }) => ((axis === "x" ? picture.has_log_x : picture.has_log_y) ? Math.log10(value) : value);
    return {
      shapes: picture.marks.map((mark) => ({ type: "line", line: { color: theme.limit, width: 2, dash: "dash" }, ...across(mark) })),
      annotations: picture.marks.map((mark) => ({
        text: mark.label, showarrow: false, font: { color: theme.ink }, bgcolor: theme.page,
        ...(mark.axis === "y"
          ? { xref: "paper", x: 1, xanchor: "right", y: at(mark), yanchor: "bottom" }
          : { yref: "paper", y: 1, yanchor: "top", x: at(mark), xanchor: "left" }),
      })),
    };
  }

  // 1, 2, 5, 10, 20 … within the values of a logarithmic axis; all of its values where they are few.
  function ticks(values) {
    const own = [...new Set(values)].sort((a, b) => a - b);
    const low = own[0] / 1.3;
    const high = own[own.length - 1] * 1.3;
    const round = [];
    for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += 1) {
      round.push(...[1, 2, 5].map((step) => step * 10 ** power));
    }
    const shown = own.length <= 8 && own.every(Number.isInteger) ? own : round.filter((value) => value >= low && value <= high);
    return { tickvals: shown, ticktext: shown.map((value) => value.toLocaleString(document.documentElement.lang)) };
  }

  function axis(name, picture, theme) {
    const label = name === "x" ? picture.x_label : picture.y_label;
    const common = {
      title: { text: label }, gridcolor: theme.line, linecolor: theme.line, zerolinecolor: theme.line,
      automargin: true, fixedrange: true,
    };
    const values = [
      ...picture.series.flatMap((series) => series[name]),
      ...picture.marks.filter((mark) => mark.axis === name).map((mark) => mark.value),
    ].filter((value) => value !== null);
    if (typeof values[0] === "string") return { ...common, type: "category" };
    if (name === "x" ? picture.has_log_x : picture.has_log_y) return { ...common, type: "log", ...ticks(values) };
    if (name === "y") return { ...common, range: [0, Math.min(picture.y_max ?? Infinity, 1.08 * top(picture, values))] };
    return common;
  }

  function top(picture, values) {
    if (!picture.is_stacked) return Math.max(...values);
    const stacks = picture.series[0].x.map((_, at) => picture.series.reduce((sum, series) => sum + series.y[at], 0));
    return Math.max(...values, ...stacks);
  }

  async function draw(place, address) {
    const picture = JSON.parse(place.dataset.picture);
    const plotly = await load(address);
    const theme = colours();
    await plotly.newPlot(place, picture.series.map((series, number) => trace(series, number, theme)), {
      title: { text: picture.title, font: { size: 15 } }, height: 400, barmode: picture.is_stacked ? "stack" : "group",
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "closest",
      font: { color: theme.ink, family: "system-ui, sans-serif", size: 12 },
      margin: { l: 60, r: 16, t: 48, b: 48 }, legend: { orientation: "h", y: -0.25 },
      hoverlabel: { bgcolor: theme.page, bordercolor: theme.line, font: { color: theme.ink } },
      xaxis: axis("x", picture, theme), yaxis: axis("y", picture, theme),
      ...marks(picture, theme),
    }, { displayModeBar: false, responsive: true });
    place.classList.add("drawn");
    place.on("plotly_click", (event) => {
      const link = event.points[0]?.customdata;
      if (link) location.assign(link);
    });
  }

  function watch(root) {
    const figures = root.querySelector("[data-plotly]") ?? root.closest?.("[data-plotly]");
    if (!figures) return;
    const seen = new IntersectionObserver((entries) => {
      for (const entry of entries.filter((each) => each.isIntersecting)) {
        seen.unobserve(entry.target);
        draw(entry.target, figures.dataset.plotly).catch((error) => {
          entry.target.textContent = error.message;
        });
      }
    }, { rootMargin: "400px" });
    for (const place of figures.querySelectorAll("[data-picture]:not(.drawn)")) seen.observe(place);
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    const figures = document.querySelector("[data-plotly]");
    for (const place of document.querySelectorAll(".picture.drawn")) draw(place, figures.dataset.plotly);
  });
  document.addEventListener("shardwise:figures", (event) => watch(event.target));
  watch(document);
})();
