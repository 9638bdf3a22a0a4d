// Moves what lab/attention_figure.py has drawn: a query by pointer or arrow keys, the sharpness of the softmax by a slider.
(function () {
  const STEP = 0.1;

  function softmax(scores) {
    const largest = Math.max(...scores);
    const exponentials = scores.map((score) => Math.exp(score - largest));
    const total = exponentials.reduce((sum, number) => sum + number, 0);
    return exponentials.map((number) => number / total);
  }

  function bring(figure) {
    const { keys, values, reach, side } = JSON.parse(figure.dataset.attention);
    const plane = figure.querySelector(".af-plane");
    const handle = figure.querySelector(".af-query");
    const output = figure.querySelector(".af-output");
    const words = figure.querySelector(".af-words");
    const bars = [...figure.querySelectorAll(".af-bar")];
    const numbers = [...figure.querySelectorAll(".af-number")];
    const keyLinks = [...plane.querySelectorAll(".af-link")];
    const valueLinks = [...figure.querySelectorAll(".af-values .af-link")];
    const barLeft = Number(bars[0].getAttribute("x"));
    const barWidth = 150;
    const [startX, startY] = handle.getAttribute("transform").match(/-?[\d.]+/g).map(Number);
    const query = [(startX / side - 0.5) * 2 * reach, (0.5 - startY / side) * 2 * reach];
    let sharpness = 1;

    const place = (point) => [(side / 2) * (1 + point[0] / reach), (side / 2) * (1 - point[1] / reach)];
    const clamp = (number) => Math.max(-reach, Math.min(reach, number));

    function show() {
      const scores = keys.map((key) => (sharpness * (key[0] * query[0] + key[1] * query[1])) / Math.SQRT2);
      const weights = softmax(scores);
      const mean = [0, 1].map((axis) => weights.reduce((sum, weight, i) => sum + weight * values[i][axis], 0));
      const [queryX, queryY] = place(query);
      const [outputX, outputY] = place(mean);
      handle.setAttribute("transform", `translate(${queryX} ${queryY})`);
      output.setAttribute("transform", `translate(${outputX} ${outputY})`);
      weights.forEach((weight, i) => {
        bars[i].setAttribute("width", barWidth * weight);
        numbers[i].setAttribute("x", barLeft + barWidth * weight + 6);
        numbers[i].textContent = weight.toFixed(2);
        for (const [line, x, y] of [[keyLinks[i], queryX, queryY], [valueLinks[i], outputX, outputY]]) {
          line.setAttribute("x2", x);
          line.setAttribute("y2", y);
          line.setAttribute("stroke-width", 0.4 + 9 * weight);
        }
      });
      const said =
        `query at (${query.map((number) => number.toFixed(1)).join(", ")}); ` +
        `weights ${weights.map((weight) => weight.toFixed(2)).join(", ")}`;
      handle.setAttribute("aria-valuetext", said);
      handle.setAttribute("aria-valuenow", query[0].toFixed(1));
      words.textContent = `${said}; output (${mean.map((number) => number.toFixed(2)).join(", ")})`;
    }

    function move(x, y) {
      query[0] = clamp(x);
      query[1] = clamp(y);
      show();
    }

    function follow(event) {
      const box = plane.getBoundingClientRect();
      move(
        ((event.clientX - box.left) / box.width - 0.5) * 2 * reach,
        (0.5 - (event.clientY - box.top) / box.height) * 2 * reach,
      );
    }

    figure.classList.add("af-moves");
    plane.setAttribute("role", "group"); // an image would hide the handle from screen readers
    for (const [name, value] of [["tabindex", 0], ["role", "slider"], ["aria-valuemin", -reach], ["aria-valuemax", reach]]) {
      handle.setAttribute(name, value);
    }
    handle.setAttribute("aria-label", "The query; the arrow keys move it");
    plane.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "touch" && !handle.contains(event.target)) return; // that finger scrolls the page
      plane.setPointerCapture(event.pointerId);
      follow(event);
      handle.focus({ preventScroll: true });
      event.preventDefault();
    });
    plane.addEventListener("pointermove", (event) => {
      if (plane.hasPointerCapture(event.pointerId)) follow(event);
    });
    handle.addEventListener("keydown", (event) => {
      const step = event.shiftKey ? 5 * STEP : STEP;
      const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
      [moves.Home, moves.End] = [[-2 * reach, 0], [2 * reach, 0]]; // as far as it goes
      const by = moves[event.key];
      if (!by) return;
      event.preventDefault();
      event.stopPropagation(); // the theme turns pages with the arrow keys
      move(query[0] + by[0], query[1] + by[1]);
    });

    const controls = document.createElement("div");
    controls.className = "af-controls";
    controls.innerHTML =
      '<label>sharpness <input type="range" min="-2" max="4" step="0.1" value="0"> <output>1.0</output></label>' +
      "<span>Drag the query, or focus it and use the arrow keys (with Shift: larger steps).</span>";
    controls.querySelector("input").addEventListener("input", (event) => {
      sharpness = 2 ** event.target.value;
      controls.querySelector("output").textContent = sharpness.toFixed(1);
      show();
    });
    figure.append(controls);
    show();
  }

  document.addEventListener("DOMContentLoaded", () => document.querySelectorAll(".attention-figure").forEach(bring));
})();
