"use strict";
// Shows runs that were recorded: nothing is simulated here.  The data are in recorded_runs.js, made by
// `python -m examples.record_runs`.

const Runs = {
  bytes(text) {
    const characters = atob(text);
    const bytes = new Uint8Array(characters.length);
    for (let i = 0; i < bytes.length; i++) bytes[i] = characters.charCodeAt(i);
    return bytes;
  },

  // 16-bit numbers, the low byte first.
  words(text) {
    const view = new DataView(Runs.bytes(text).buffer);
    return Array.from({ length: view.byteLength / 2 }, (_, i) => view.getUint16(2 * i, true));
  },

  // The recorded numbers of one run in units of the problem.
  run(data, piece, penalty) {
    const written = data.pieces[piece].runs[penalty];
    const n = written.atoms.length;
    const levels = Runs.bytes(written.codes);
    const code = (row) => Array.from(levels.subarray(row * n, (row + 1) * n), (v) => (v * written.largest) / 255);
    const fractions = Array.from({ length: data.n_times }, (_, k) => (k / (data.n_times - 1)) ** 2);
    const neurons = Runs.bytes(written.neurons);
    const stageOfSpike = written.stages.flatMap(([, , count], stage) => Array(count).fill(stage));
    return {
      duration: written.duration,
      stages: written.stages.map(([start, scale]) => ({ start, scale })),
      spikes: Runs.words(written.times).map((t, i) => ({
        time: (t * written.duration) / 65535, neuron: neurons[i], stage: stageOfSpike[i],
      })),
      times: fractions.map((f) => f * written.duration),
      atoms: written.atoms,
      codes: fractions.map((_, k) => code(k)),
      optimum: code(data.n_times),
      gaps: Runs.words(written.gaps).map((v) => 10 ** ((1 - v / 65535) * data.least_power)),
    };
  },

  // Atoms of unit norm, as the network has them.
  atoms(data) {
    const n = data.side * data.side;
    const all = new Int8Array(Runs.bytes(data.atoms).buffer);
    return Array.from({ length: data.n_atoms }, (_, i) => {
      const atom = Array.from(all.subarray(i * n, (i + 1) * n));
      const norm = Math.hypot(...atom);
      return atom.map((v) => v / norm);
    });
  },

  // The signal of a piece: its pixels from 0 to 1, without their mean.
  signal(data, piece) {
    const pixels = Array.from(Runs.bytes(data.pieces[piece].pixels), (v) => v / 255);
    const mean = pixels.reduce((a, b) => a + b) / pixels.length;
    return pixels.map((v) => v - mean);
  },

  reconstruct(atoms, run, k) {
    const sum = new Array(atoms[0].length).fill(0);
    run.codes[k].forEach((value, i) => {
      if (value !== 0) atoms[run.atoms[i]].forEach((v, j) => { sum[j] += value * v; });
    });
    return sum;
  },

  sentence(run, k) {
    const time = run.times[k];
    const fired = run.spikes.filter((spike) => spike.time <= time).length;
    const stage = Math.max(run.stages.filter(({ start }) => start < time).length, 1);
    const active = run.codes[k].filter((value) => value > 0).length;
    return `Time ${time.toFixed(1)}: ${fired} spikes, stage ${stage} of ${run.stages.length}. The code has ` +
      `${active} atoms, the optimum ${run.optimum.filter((value) => value > 0).length}. Certified gap: ` +
      `${run.gaps[k].toExponential(1)} of ½‖signal‖².`;
  },
};

class NetworkPage {
  constructor(root, data) {
    this.root = root;
    this.data = data;
    this.atoms = Runs.atoms(data);
    this.pieces = Object.keys(data.pieces);
    this.state = { piece: this.pieces[0], penalty: 5, time: data.n_times - 1 };
    this.player = null;
    this.find = (id) => root.querySelector(`#${id}`);
    this.addPieces();
    this.find("penalty").max = data.shares.length - 1;
    this.find("time").max = data.n_times - 1;
    this.find("penalty").addEventListener("input", (event) => this.set({ penalty: Number(event.target.value) }));
    this.find("time").addEventListener("input", (event) => { this.pause(); this.set({ time: Number(event.target.value) }); });
    this.find("play").addEventListener("click", () => (this.player === null ? this.play() : this.pause()));
    window.addEventListener("hashchange", () => this.readHash());
    new ResizeObserver(() => this.draw()).observe(this.find("neurons"));
    new MutationObserver(() => this.draw()).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    this.set({});
    this.readHash();
  }

  addPieces() {
    for (const name of this.pieces) {
      const label = document.createElement("label");
      label.className = "piece";
      const input = Object.assign(document.createElement("input"), { type: "radio", name: "piece", value: name });
      const canvas = document.createElement("canvas");
      const signal = Runs.signal(this.data, name);
      this.paint(canvas, signal, Math.min(...signal), Math.max(...signal));
      input.addEventListener("change", () => this.set({ piece: name }));
      label.append(input, canvas, name);
      this.find("pieces").append(label);
    }
  }

  // #piece=smile&penalty=7&time=30 : a state that can be linked to.
  readHash() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    const change = {};
    if (this.pieces.includes(wanted.get("piece"))) change.piece = wanted.get("piece");
    for (const [name, n] of [["penalty", this.data.shares.length], ["time", this.data.n_times]]) {
      const value = Number.parseInt(wanted.get(name), 10);
      if (value >= 0 && value < n) change[name] = value;
    }
    if (Object.keys(change).length) { this.pause(); this.set(change); }
  }

  set(change) {
    Object.assign(this.state, change);
    const { piece, penalty, time } = this.state;
    const key = `${piece} ${penalty}`;
    if (key !== this.shown) this.run = Runs.run(this.data, piece, penalty);
    this.shown = key;
    const share = `${Math.round(1000 * this.data.shares[penalty]) / 10} % of the largest, at which no neuron fires`;
    this.root.querySelectorAll("input[name=piece]").forEach((input) => { input.checked = input.value === piece; });
    this.find("penalty").value = penalty;
    this.find("penalty").setAttribute("aria-valuetext", share);
    this.find("penalty-says").textContent = share;
    this.find("time").value = time;
    this.find("time").setAttribute("aria-valuetext", `${this.run.times[time].toFixed(1)} time constants`);
    this.find("time-says").textContent =
      `${this.run.times[time].toFixed(1)} of ${this.run.duration.toFixed(1)} synaptic time constants`;
    this.find("state").textContent = Runs.sentence(this.run, time);
    this.draw();
  }

  play() {
    if (this.state.time === this.data.n_times - 1) this.set({ time: 0 });
    this.find("play").textContent = "Pause";
    // While it plays, a screen reader would be told twelve times a second.
    this.find("state").setAttribute("aria-live", "off");
    this.player = setInterval(() => {
      this.set({ time: this.state.time + 1 });
      if (this.state.time === this.data.n_times - 1) this.pause();
    }, 110);
  }

  pause() {
    clearInterval(this.player);
    this.player = null;
    this.find("play").textContent = "Play";
    this.find("state").setAttribute("aria-live", "polite");
  }

  draw() {
    const signal = Runs.signal(this.data, this.state.piece);
    const [low, high] = [Math.min(...signal), Math.max(...signal)];
    this.paint(this.find("signal"), signal, low, high);
    this.paint(this.find("coded"), Runs.reconstruct(this.atoms, this.run, this.state.time), low, high);
    this.drawGap();
    this.drawNeurons();
  }

  // One pixel of the canvas for each of the picture; the browser makes them larger.
  paint(canvas, values, low, high) {
    const side = this.data.side;
    canvas.width = canvas.height = side;
    const context = canvas.getContext("2d");
    context.putImageData(this.greys(context, values, low, high), 0, 0);
  }

  greys(context, values, low, high) {
    const image = context.createImageData(this.data.side, this.data.side);
    values.forEach((value, i) => {
      const grey = Math.round((255 * (value - low)) / (high - low));
      image.data.set([grey, grey, grey, 255], 4 * i);
    });
    return image;
  }

  // A canvas in units of CSS pixels, empty, and the colours of the theme.
  chart(id) {
    const canvas = this.find(id);
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    const style = getComputedStyle(this.root);
    const colour = Object.fromEntries(["spike", "ink", "faint", "grid"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    context.font = `12px ${style.fontFamily}`;
    context.lineWidth = 1;
    return { context, width, height, colour };
  }

  drawTimeAxis({ context, colour }, left, right, bottom) {
    const steps = [5, 10, 20, 50, 100, 200, 500, 1000];
    const most = (right - left) / 45;
    const step = steps.find((value) => this.run.duration / value <= most) ?? steps.at(-1);
    context.fillStyle = colour.ink;
    context.strokeStyle = colour.faint;
    context.textAlign = "center";
    context.textBaseline = "top";
    for (let t = 0; t <= this.run.duration; t += step) {
      const x = left + ((right - left) * t) / this.run.duration;
      context.fillText(String(t), x, bottom + 4);
      this.line(context, x, bottom, x, bottom + 3);
    }
    context.fillText("time", (left + right) / 2, bottom + 19);
  }

  line(context, x0, y0, x1, y1) {
    context.beginPath();
    context.moveTo(x0, y0);
    context.lineTo(x1, y1);
    context.stroke();
  }

  drawGap() {
    const chart = this.chart("gap");
    const { context, width, height, colour } = chart;
    const [left, right, top, bottom] = [38, width - 8, 8, height - 36];
    const { run, state } = this;
    const x = (time) => left + ((right - left) * time) / run.duration;
    const lowest = Math.floor(Math.log10(Math.min(...run.gaps)) - 0.2);
    const y = (gap) => top + ((bottom - top) * (0.15 - Math.log10(gap))) / (0.15 - lowest);
    context.strokeStyle = colour.grid;
    context.fillStyle = colour.ink;
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (let power = 0; power >= lowest; power--) {
      this.line(context, left, y(10 ** power), right, y(10 ** power));
      context.fillText(power === 0 ? "1" : `1e${power}`, left - 5, y(10 ** power));
    }
    this.drawTimeAxis(chart, left, right, bottom);
    context.strokeStyle = context.fillStyle = colour.spike;
    context.lineWidth = 2;
    context.beginPath();
    for (let k = 0; k <= state.time; k++) context.lineTo(x(run.times[k]), y(run.gaps[k]));
    context.stroke();
    context.beginPath();
    context.arc(x(run.times[state.time]), y(run.gaps[state.time]), 4, 0, 2 * Math.PI);
    context.fill();
  }

  drawNeurons() {
    const chart = this.chart("neurons");
    const { context, width, height, colour } = chart;
    const { run, state } = this;
    const rows = this.data.pieces[state.piece].rows;
    const now = run.times[state.time];
    const [top, bottom] = [22, height - 36];
    const row = (bottom - top) / rows.length;
    const picture = Math.min(row - 3, 28);
    const left = picture + 8;
    const right = left + Math.round((width - left) * 0.62);
    const [barLeft, barRight] = [right + 14, width - 10];
    const place = new Map(rows.map((atom, i) => [atom, i]));

    context.fillStyle = colour.ink;
    context.textBaseline = "top";
    context.textAlign = "left";
    context.fillText("neuron fires", left, 2);
    context.fillText("code", barLeft, 2);
    const words = context.measureText("code").width;
    context.fillRect(barLeft + words + 8, 2, 2, 12);
    context.fillText("optimum", barLeft + words + 13, 2);
    this.drawTimeAxis(chart, left, right, bottom);

    // The picture of each neuron's atom.
    const small = document.createElement("canvas");
    context.imageSmoothingEnabled = false;
    rows.forEach((atom, i) => {
      const largest = Math.max(...this.atoms[atom].map(Math.abs));
      this.paint(small, this.atoms[atom], -largest, largest);
      context.drawImage(small, 0, top + i * row + (row - picture) / 2, picture, picture);
      context.strokeStyle = colour.grid;
      this.line(context, left, top + (i + 0.5) * row, right, top + (i + 0.5) * row);
    });

    // Spikes; those of later stages are worth less, and shorter.
    const x = (time) => left + ((right - left) * time) / run.duration;
    const half = run.stages.map(({ scale }) => 0.42 * row * Math.max((scale / run.stages[0].scale) ** 0.15, 0.3));
    context.strokeStyle = colour.spike;
    context.lineWidth = 1.2;
    context.beginPath();
    for (const { time, neuron, stage } of run.spikes) {
      if (time > now) break;
      if (!place.has(neuron)) continue;
      const middle = top + (place.get(neuron) + 0.5) * row;
      context.moveTo(x(time), middle - half[stage]);
      context.lineTo(x(time), middle + half[stage]);
    }
    context.stroke();
    context.lineWidth = 1;
    context.strokeStyle = colour.faint;
    context.setLineDash([2, 3]);
    for (const { start } of run.stages.slice(1)) if (start < now) this.line(context, x(start), top, x(start), bottom);
    context.setLineDash([]);
    context.strokeStyle = colour.ink;
    this.line(context, x(now), top, x(now), bottom);

    // Bars of the code, and marks of the optimum.
    const largest = Math.max(...run.optimum, ...run.codes.flat());
    const length = (value) => ((barRight - barLeft) * value) / largest;
    context.strokeStyle = colour.faint;
    this.line(context, barLeft, top, barLeft, bottom);
    run.atoms.forEach((atom, i) => {
      if (!place.has(atom)) return;
      const middle = top + (place.get(atom) + 0.5) * row;
      context.fillStyle = colour.spike;
      context.fillRect(barLeft, middle - 0.3 * row, length(run.codes[state.time][i]), 0.6 * row);
      if (run.optimum[i] > 0) {
        context.fillStyle = colour.ink;
        context.fillRect(barLeft + length(run.optimum[i]) - 1, middle - 0.42 * row, 2, 0.84 * row);
      }
    });
    const others = run.atoms.filter((atom, i) => !place.has(atom) && run.optimum[i] > 0).length;
    if (others) {
      context.fillStyle = colour.ink;
      context.textAlign = "left";
      context.textBaseline = "top";
      context.fillText(`and ${others} more atoms`, barLeft, bottom + 4);
    }
  }
}

if (typeof module !== "undefined") module.exports = Runs;
else new NetworkPage(document.getElementById("network-page"), RECORDED_RUNS);
