"use strict";
(() => {
  const tip = document.body.appendChild(document.createElement("div"));
  tip.id = "tip";
  for (const svg of document.querySelectorAll("svg.plot")) {
    const cursor = svg.querySelector(".cursor");
    const lines = [...svg.querySelectorAll("[data-tips]")].map((line) => ({
      name: line.dataset.name,
      unit: line.dataset.unit,
      color: getComputedStyle(line).color,
      points: line.dataset.tips.split(";").map((point) => point.split(":")),
    }));
    if (!cursor || !lines.length) continue;
    // The label stays for screen readers; the browser's own tooltip would cover ours.
    svg.querySelector("title")?.remove();
    const show = (event) => {
      const matrix = svg.getScreenCTM();
      if (!matrix) return;
      const x = (event.clientX - matrix.e) / matrix.a;
      const nearest = (points) =>
        points.reduce((a, b) => (Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a));
      const rows = lines.map((line) => ({ line, point: nearest(line.points) }));
      cursor.setAttribute("transform", `translate(${rows[0].point[0]} 0)`);
      cursor.style.visibility = "visible";
      tip.replaceChildren(`${rows[0].point[1]} ${cursor.dataset.name}`);
      for (const { line, point } of rows) {
        const row = tip.appendChild(document.createElement("div"));
        row.appendChild(document.createElement("i")).style.color = line.color;
        row.append(`${line.name}: ${point[2]} ${line.unit}`);
      }
      const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
      tip.style.left = `${Math.max(8, left)}px`;
      tip.style.top = `${Math.max(8, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8))}px`;
      tip.style.visibility = "visible";
    };
    const hide = () => {
      cursor.style.visibility = tip.style.visibility = "hidden";
    };
    svg.addEventListener("pointermove", show);
    svg.addEventListener("pointerdown", show);
    svg.addEventListener("pointerleave", hide);
  }
})();
