// Draws other choices of layer, head and word in what lab/head_figure.py has drawn.
(function () {
  function bring(figure) {
    const { pieces, shape, percents } = JSON.parse(figure.dataset.heads);
    const [layers, heads, length] = shape;
    const lines = [...figure.querySelectorAll(".hf-line")];
    const asking = [...figure.querySelectorAll(".hf-asks")];
    const numbers = [...figure.querySelectorAll(".hf-percent")];
    const cells = [...figure.querySelectorAll(".hf-cell")];
    const rows = asking.map((text) => Number(text.getAttribute("y")) - 5);
    const [layer, head, word] = figure.dataset.choice.split(" ").map(Number);
    const choice = { layer, head, word };

    const weights = (layer, head) => {
      const start = ((layer * heads + head) * length + choice.word) * length;
      return percents.slice(start, start + length);
    };
    const strongestFirst = (row) => row.map((_, n) => n).sort((a, b) => row[b] - row[a] || a - b);

    function show() {
      const row = weights(choice.layer, choice.head);
      row.forEach((percent, n) => {
        lines[n].setAttribute("y1", rows[choice.word]);
        lines[n].setAttribute("stroke-width", percent / 8);
        numbers[n].textContent = `${percent} %`;
        asking[n].classList.toggle("hf-chosen", n === choice.word);
      });
      cells.forEach((cell, n) => {
        const others = weights(Math.floor(n / heads), n % heads);
        const strongest = strongestFirst(others)[0];
        cell.textContent = `${pieces[strongest]} ${others[strongest]}`;
        cell.style.setProperty("--weight", `${others[strongest]}%`);
        cell.classList.toggle("hf-chosen", n === choice.layer * heads + choice.head);
      });
      const named = strongestFirst(row).slice(0, 3).map((n) => `${pieces[n]} ${row[n]} %`).join(", ");
      figure.querySelector(".hf-name").textContent = pieces[choice.word];
      figure.querySelector(".hf-words").textContent =
        `layer ${choice.layer}, head ${choice.head}: ${pieces[choice.word]} attends to ${named}`;
      for (const [name, select] of Object.entries(selects)) select.value = choice[name];
    }

    function pick(changes) {
      Object.assign(choice, changes);
      show();
    }

    const controls = document.createElement("div");
    controls.className = "hf-controls";
    const selects = {};
    for (const [name, options] of [
      ["layer", [...Array(layers).keys()]],
      ["head", [...Array(heads).keys()]],
      ["word", pieces],
    ]) {
      const label = document.createElement("label");
      const select = document.createElement("select");
      options.forEach((text, value) => select.add(new Option(text, value)));
      select.addEventListener("change", () => pick({ [name]: Number(select.value) }));
      label.append(`${name} `, select);
      controls.append(label);
      selects[name] = select;
    }
    figure.prepend(controls);
    figure.classList.add("hf-picks");
    asking.forEach((text, n) => text.addEventListener("click", () => pick({ word: n })));
    cells.forEach((cell, n) =>
      cell.addEventListener("click", () => pick({ layer: Math.floor(n / heads), head: n % heads })),
    );
    show();
  }

  document.addEventListener("DOMContentLoaded", () => document.querySelectorAll(".head-figure").forEach(bring));
})();
