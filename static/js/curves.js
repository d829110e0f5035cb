// Curves of a run, or of several beside each other: drawn once, then grown. Whatever a lost connection missed arrives with the next answer.
(() => {
  "use strict";
  const box = document.querySelector("[data-curves]");
  if (!box) return;
  const held = { last: 0, attempt: null, series: {}, marks: [] };
  const charts = [];
  const SERIES = ["--series-1", "--series-2", "--series-3", "--series-4", "--series-5", "--series-6", "--series-7", "--series-8"];
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name) || "#888";
  // light-dark() is resolved by reading it back from a real property.
  const resolved = (name) => {
    const probe = document.createElement("span");
    probe.style.color = `var(${name})`;
    box.append(probe);
    const value = getComputedStyle(probe).color;
    probe.remove();
    return value || colour(name);
  };
  const sync = window.uPlot.sync("run");
  const byTime = () => box.querySelector("[data-axis]")?.value === "time";
  const isSmooth = () => box.querySelector("[data-smooth]")?.checked;

  const short = (value) => {
    if (value == null) return "—";
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2).replace(/\.?0+e/, "e");
    return size >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(4)));
  };
  const bytes = (value) => value == null ? "—" : value >= 2 ** 30 ? `${Number((value / 2 ** 30).toPrecision(3))} GiB` : `${Math.round(value / 2 ** 20)} MiB`;
  const clock = (seconds) => seconds < 60 ? `${Math.round(seconds)}s` : seconds < 3600 ? `${Math.floor(seconds / 60)}m ${Math.round(seconds % 60)}s` : `${Math.floor(seconds / 3600)}h ${Math.round(seconds % 3600 / 60)}m`;

  // Smoothing is an exponential mean; off unless asked for, because it hides spikes.
  const smoothed = (values) => {
    let mean = null;
    return values.map((value) => value == null ? null : (mean = mean == null ? value : mean * 0.9 + value * 0.1));
  };

  const dataOf = (names) => {
    const tables = names.map((name) => {
      const found = held.series[name] || { steps: [], times: [], values: [] };
      return [byTime() ? found.times : found.steps, isSmooth() ? smoothed(found.values) : found.values];
    });
    return tables.length === 1 ? tables[0] : window.uPlot.join(tables);
  };

  const marksPlugin = () => ({
    hooks: {
      draw: (plot) => {
        const { ctx, bbox } = plot;
        ctx.save();
        ctx.lineWidth = devicePixelRatio;
        for (const mark of held.marks) {
          const x = Math.round(plot.valToPos(byTime() ? mark.time : mark.step, "x", true)) + 0.5;
          if (!(x >= bbox.left && x <= bbox.left + bbox.width)) continue;
          ctx.strokeStyle = resolved(mark.kind === "attempt" ? "--warn" : "--line-strong");
          ctx.beginPath();
          ctx.setLineDash(mark.kind === "attempt" ? [4, 4] : []);
          ctx.moveTo(x, mark.kind === "attempt" ? bbox.top : bbox.top + bbox.height - 8 * devicePixelRatio);
          ctx.lineTo(x, bbox.top + bbox.height);
          ctx.stroke();
        }
        ctx.restore();
      },
    },
  });

  const options = (place, names, labels) => {
    const ink = resolved("--soft"), line = resolved("--line");
    const isAlike = "alike" in place.dataset;
    const strokes = isAlike ? SERIES.map(resolved) : [resolved("--accent"), resolved("--warn")];
    const say = place.dataset.unit === "bytes" ? bytes : short;
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "12px system-ui, sans-serif" };
    return {
      width: place.clientWidth, height: place.closest(".big") ? 270 : 190,
      cursor: { sync: { key: sync.key, setSeries: false }, drag: { x: true, y: false }, points: { size: 6 } },
      // A figure that is zero throughout lies on an axis to 1, not to 100.
      scales: { x: { time: false }, y: { range: (_, least, most) => least == null ? [null, null] : least === 0 && most === 0 ? [0, 1] : window.uPlot.rangeNum(least, most, 0.1, true) } },
      legend: { live: true },
      axes: [{ ...axis, values: (_, ticks) => ticks.map((tick) => byTime() ? clock(tick) : Number.isInteger(tick) ? tick : "") },
        { ...axis, size: place.dataset.unit ? 78 : 62, values: (_, ticks) => ticks.map(say) }],
      series: [{ label: "Update", value: (_, value) => value == null ? "—" : byTime() ? clock(value) : value },
        ...names.map((_, index) => ({
          label: labels[index], stroke: strokes[index % strokes.length], width: 1.5, value: (_plot, value) => say(value),
          // A second figure of one run is dashed with its points shown; several runs are dashed once the colours repeat.
          points: { show: !isAlike && index > 0, size: 6, fill: strokes[index % strokes.length] },
          dash: (isAlike ? index >= strokes.length : index > 0) ? [6, 4] : undefined,
        }))],
      plugins: [marksPlugin()],
    };
  };

  // The figures of a chart that have points; the first one while none has.
  const shownOf = (place) => {
    const names = place.dataset.names.split(",");
    const found = names.filter((name, index) => held.series[name]?.steps.length || (index === 0 && !("alike" in place.dataset)));
    return found.length ? found : names.slice(0, 1);
  };

  const build = () => {
    charts.splice(0).forEach((chart) => chart.plot.destroy());
    for (const place of box.querySelectorAll("[data-names]")) {
      const names = place.dataset.names.split(","), labels = place.dataset.labels.split("|");
      const shown = shownOf(place);
      const plot = new window.uPlot(options(place, shown, shown.map((name) => labels[names.indexOf(name)])), dataOf(shown), place);
      sync.sub(plot);
      charts.push({ plot, place, names: shown });
    }
    note();
  };

  // What a chart shows, in words, for whoever cannot see it: each figure's first, last, least and most.
  const told = (place, names) => {
    const say = place.dataset.unit === "bytes" ? bytes : short, labels = place.dataset.labels.split("|"), all = place.dataset.names.split(",");
    const said = names.map((name) => {
      const { steps, values } = held.series[name] || { steps: [], values: [] };
      return steps.length && `${labels[all.indexOf(name)]}: ${say(values[0])} at update ${steps[0]}, ${say(values.at(-1))} at update ${steps.at(-1)}, least ${say(Math.min(...values))}, most ${say(Math.max(...values))}`;
    }).filter(Boolean);
    const drawn = place.querySelector(".u-wrap");
    drawn.setAttribute("role", "img");
    drawn.setAttribute("aria-label", `Chart. ${said.join(". ") || "No point yet"}.`);
  };

  const note = () => {
    for (const { place, names } of charts) {
      const count = names.reduce((sum, name) => sum + (held.series[name]?.steps.length || 0), 0);
      place.dataset.points = count;
      told(place, names);
      place.closest(".curve").hidden = count === 0 && !place.closest(".big");
    }
    const none = box.querySelector("[data-none]");
    if (none) none.hidden = Object.values(held.series).some((series) => series.steps.length);
    box.querySelector(".curve.big").hidden = none && !none.hidden;
  };

  const take = (answer) => {
    const fresh = answer.isWhole;
    for (const [name, part] of Object.entries(answer.series)) {
      const mine = held.series[name];
      if (fresh || !mine) held.series[name] = part;
      else for (const key of ["steps", "times", "values"]) mine[key].push(...part[key]);
    }
    Object.assign(held.series, answer.replaced);
    Object.assign(held, { last: answer.last, attempt: answer.attempt, marks: answer.marks });
    const drawn = charts.map((chart) => chart.names.join()).join(";");
    const wanted = [...box.querySelectorAll("[data-names]")].map((place) => shownOf(place).join()).join(";");
    if (drawn !== wanted) build();
    else { charts.forEach(({ plot, names }) => plot.setData(dataOf(names))); note(); }
    fit();
  };

  let busy = false, again = false;
  const update = async () => {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const longest = Math.max(0, ...Object.values(held.series).map((series) => series.steps.length));
      const answer = await fetch(`${box.dataset.curves}${box.dataset.curves.includes("?") ? "&" : "?"}after=${longest > 4000 ? 0 : held.last}&attempt=${held.attempt ?? ""}`, { headers: { Accept: "application/json" } });
      if (answer.ok) take(await answer.json());
    } catch {
      // The box does not answer just now; the next change asks again.
    } finally {
      busy = false;
      if (again) { again = false; update(); }
    }
  };

  const fit = () => charts.forEach(({ plot, place }) => {
    if (place.clientWidth && place.clientWidth !== plot.width) plot.setSize({ width: place.clientWidth, height: plot.height });
  });
  const picture = () => {
    const canvas = charts[0]?.plot.ctx.canvas;
    if (!canvas) return;
    const sheet = document.createElement("canvas");
    sheet.width = canvas.width; sheet.height = canvas.height;
    const pen = sheet.getContext("2d");
    pen.fillStyle = resolved("--card") ; pen.fillRect(0, 0, sheet.width, sheet.height); pen.drawImage(canvas, 0, 0);
    const link = document.createElement("a");
    link.download = `${box.dataset.name}-loss.png`; link.href = sheet.toDataURL("image/png"); link.click();
  };

  box.addEventListener("change", (event) => { if (event.target.matches("[data-axis], [data-smooth]")) build(); });
  box.addEventListener("click", (event) => { if (event.target.closest("[data-picture]")) picture(); });
  document.addEventListener("themechange", build);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", build);
  document.addEventListener("htmx:afterSettle", (event) => { if (event.detail.target?.id === "live" || event.detail.elt?.id === "live") update(); });
  new ResizeObserver(fit).observe(box);
  update();
})();
