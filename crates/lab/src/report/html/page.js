"use strict";
(() => {
  // Paths are M with a place, and l with steps from the place before.
  const placesOf = (path) => {
    let x = 0;
    return [...path.matchAll(/([Ml])(-?[\d.]+)/g)].map(([, pen, by]) => (x = pen === "M" ? Number(by) : x + Number(by)));
  };
  const tip = document.body.appendChild(document.createElement("div"));
  tip.id = "tip";
  for (const svg of document.querySelectorAll("svg.plot")) {
    const cursor = svg.querySelector(".cursor");
    // Of each line where its points are, and what their values are.
    const lines = [...svg.querySelectorAll("[data-tips]")].map((line) => {
      const places = placesOf(line.getAttribute("d"));
      return {
        name: line.dataset.name,
        unit: line.dataset.unit,
        color: getComputedStyle(line).color,
        points: line.dataset.tips.split(";").map((value, i) => [places[i], value]),
      };
    }).filter((line) => line.points[0][0] !== undefined);
    if (!cursor || !lines.length) continue;
    const [left, low, right, high] = cursor.dataset.ends.split(" ").map(Number);
    // The label stays for screen readers; the browser's own tooltip would cover ours.
    svg.querySelector("title")?.remove();
    const show = (event) => {
      const matrix = svg.getScreenCTM();
      if (!matrix) return;
      const x = Math.min(Math.max((event.clientX - matrix.e) / matrix.a, left), right);
      const nearest = (points) =>
        points.reduce((a, b) => (Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a));
      const rows = lines.map((line) => ({ line, point: nearest(line.points) }));
      cursor.setAttribute("transform", `translate(${x} 0)`);
      cursor.style.visibility = "visible";
      const at = low + ((high - low) * (x - left)) / (right - left);
      tip.replaceChildren(`${at.toPrecision(3)} ${cursor.dataset.name}`);
      for (const { line, point } of rows) {
        const row = tip.appendChild(document.createElement("div"));
        row.appendChild(document.createElement("i")).style.color = line.color;
        row.append(`${line.name}: ${point[1]} ${line.unit}`);
      }
      const beside = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
      tip.style.left = `${Math.max(8, beside)}px`;
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
