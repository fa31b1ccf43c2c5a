"use strict";
(() => {
  const HOP = 26; // px, height of a cell of a machine
  const LEAST = 16; // px, width of a machine in a row on a narrow page, where the row scrolls if it exceeds this:
  const WIDE = 700; // px
  const KEPT = 0.7; // s of playing for which a release or a transient failure stays marked

  // Returns the running sums of differences.
  const sums = (steps) => {
    let total = 0;
    return steps.map((step) => (total += step));
  };

  const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

  // Returns y(x) of a piecewise linear function with ascending knots.
  function interpolate(x, xs, ys) {
    let low = 0;
    let high = xs.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] <= x) low = middle;
      else high = middle;
    }
    const width = xs[high] - xs[low];
    return width > 0 ? ys[low] + ((ys[high] - ys[low]) * (x - xs[low])) / width : ys[low];
  }

  function clock(seconds, span) {
    if (span < 7200) return `${seconds.toFixed(span < 1 ? 4 : 2)} s`;
    const whole = Math.floor(seconds);
    const two = (value) => String(value).padStart(2, "0");
    const text = `${two(Math.floor(whole / 3600) % 24)}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
    return span < 86400 ? text : `day ${Math.floor(whole / 86400)}, ${text}`;
  }

  // Returns a span of time with three digits, in a fitting unit.
  function spanText(seconds) {
    const [size, unit] = [[86400, "days"], [3600, "h"], [0, "s"]].find(([least]) => seconds >= 2 * least);
    const value = seconds / (size || 1);
    return `${value < 100 ? Number(value.toPrecision(2)) : Math.round(value)} ${unit}`;
  }

  function start(root) {
    const data = JSON.parse(root.querySelector("script").textContent);
    const canvas = root.querySelector("canvas");
    const draw = canvas.getContext("2d");
    const button = root.querySelector(".play");
    const slider = root.querySelector("input[type=range]");
    const output = root.querySelector("output");
    const rate = root.querySelector("select");
    const slow = root.querySelector(".slow input");
    const log = root.querySelector(".log");
    const probes = Object.fromEntries(
      ["text", "muted", "line", "raised", "background"].map((name) => [name, root.querySelector(`.c-${name}`)]),
    );

    // -- data ----------------------------------------------------------------------------------------------

    const { begin, unit, span, machines, servers, applications, tree, raster, kinds } = data;
    const length = data.pace.play.at(-1);
    const colourOf = (application) => data.colours[application % data.colours.length];
    for (const [table, column] of [["pieces", "start"], ["queues", "time"], ["messages", "sent"]]) {
      if (data[table]) data[table][column] = sums(data[table][column]);
    }
    const { pieces, queues, outages, messages } = data;
    const column = Array(machines); // position of each machine from the left
    data.order.forEach((machine, position) => (column[machine] = position));
    const hidden = new Set(data.hidden); // kinds of messages that are not drawn
    const events = [];
    applications.release.forEach((time, k) => {
      const tasks = applications.tasks[k];
      const place = applications.submitter[k] >= 0 ? ` at machine ${applications.submitter[k]}` : "";
      if (tasks) events.push([time, `${data.item} ${applications.names[k]}: ${tasks} task${tasks > 1 ? "s" : ""} submitted${place}`]);
    });
    outages.machine.forEach((machine, k) => {
      events.push([outages.begin[k], `machine ${machine} fails`]);
      if (outages.end[k] > outages.begin[k]) events.push([outages.end[k], `machine ${machine} is up again`]);
    });
    events.sort((a, b) => a[0] - b[0]);

    // Returns the number of tasks of a piece that have started by `time`.
    function startedTasks(k, time) {
      const from = pieces.start[k];
      if (time < from) return 0;
      if (data.rigid) return pieces.tasks[k];
      return clamp(Math.floor(((time - from) / Math.max(pieces.length[k], 1e-9)) * pieces.tasks[k]) + 1, 1, pieces.tasks[k]);
    }

    // Returns the state at `time`, in units since the beginning, after all events of that instant.
    function stateAt(time) {
      const count = applications.tasks.length;
      const state = { running: [], queued: new Map(), done: Array(count).fill(0), runs: Array(count).fill(0), up: Array(machines).fill(true) };
      const add = (machine, application, change) => {
        const key = machine * count + application;
        state.queued.set(key, (state.queued.get(key) ?? 0) + change);
      };
      for (let k = 0; k < pieces.start.length && pieces.start[k] <= time; k++) {
        const started = startedTasks(k, time);
        const ended = pieces.start[k] + pieces.length[k] <= time;
        if (queues) add(pieces.machine[k], pieces.application[k], -started);
        if (pieces.completed[k]) state.done[pieces.application[k]] += ended ? pieces.tasks[k] : data.rigid ? 0 : started - 1;
        if (ended) continue;
        state.running.push(k);
        state.runs[pieces.application[k]] += data.rigid ? pieces.tasks[k] : 1;
      }
      if (queues) {
        for (let k = 0; k < queues.time.length && queues.time[k] <= time; k++) {
          add(queues.machine[k], queues.application[k], queues.change[k]);
        }
      }
      const waiting = Array(count).fill(0);
      for (const [key, tasks] of state.queued) waiting[key % count] += Math.max(0, tasks);
      state.waiting = waiting;
      state.pending = waiting.map((queued, k) => {
        const tasks = applications.release[k] <= time ? applications.tasks[k] : 0;
        state.done[k] = Math.min(state.done[k], applications.tasks[k]);
        state.runs[k] = Math.min(state.runs[k], tasks - state.done[k]); // several replicas of a task may run
        return Math.max(0, tasks - state.done[k] - state.runs[k] - queued);
      });
      for (let k = 0; k < outages.machine.length; k++) {
        if (outages.begin[k] <= time && time < outages.end[k]) state.up[outages.machine[k]] = false;
      }
      return state;
    }

    // Returns, for each machine, [application, tasks] of its queue in the order in which the tasks start; tasks
    // that never start on the machine are last.
    function stacksAt(state, time) {
      const count = applications.tasks.length;
      const waiting = new Map([...state.queued].filter(([, tasks]) => tasks > 0).sort((a, b) => a[0] - b[0]));
      const starts = Array.from({ length: machines }, () => []);
      for (let k = 0; waiting.size && k < pieces.start.length; k++) {
        const key = pieces.machine[k] * count + pieces.application[k];
        const from = startedTasks(k, time);
        const until = Math.min(pieces.tasks[k], from + (waiting.get(key) ?? 0));
        const step = pieces.length[k] / pieces.tasks[k];
        for (let task = from; task < until; task++) starts[pieces.machine[k]].push([pieces.start[k] + task * step, key]);
      }
      const stacks = starts.map((entries) => {
        const stack = [];
        for (const [, key] of entries.sort((a, b) => a[0] - b[0] || a[1] - b[1])) {
          if (!waiting.get(key)) continue;
          waiting.set(key, waiting.get(key) - 1);
          if (stack.at(-1)?.[0] === key % count) stack.at(-1)[1]++;
          else stack.push([key % count, 1]);
        }
        return stack;
      });
      for (const [key, tasks] of waiting) if (tasks) stacks[Math.floor(key / count)].push([key % count, tasks]);
      return stacks;
    }

    // -- time ----------------------------------------------------------------------------------------------

    let played = 0; // s of the playing time
    let playing = false;
    let last = 0;
    const isSlow = () => slow.checked && data.pace.play.length > 2;
    const timeOf = (at) => (isSlow() ? interpolate(at, data.pace.play, data.pace.time) : (at / length) * span);
    const playOf = (time) => (isSlow() ? interpolate(time, data.pace.time, data.pace.play) : (time / span) * length);

    // -- geometry ------------------------------------------------------------------------------------------

    const depth = tree ? Math.max(...tree.levels) : 0;
    const largestQueue = Math.max(1, data.largest_queue);
    let area; // sizes and positions for the width of the canvas

    function arrange(width) {
      const narrow = width < 560;
      const left = data.columns ? (narrow ? 40 : 72) : 0;
      const font = narrow ? 11 : 12;
      if (!data.columns) {
        const count = raster ? raster.machines.length : machines;
        const room = Math.min(420, Math.max(160, width * 0.6));
        const across = Math.max(1, Math.ceil(Math.sqrt((count * width) / room)));
        const size = Math.min(36, width / across);
        const top = servers && messages ? 46 : 8;
        const bottom = top + Math.ceil(count / across) * size;
        return { width, narrow, font, left, across, size, cells: top, bottom, x: 0 };
      }
      const each = Math.min(96, (width - left - 8) / machines);
      const x = left + (width - left - 8 - each * machines) / 2;
      const level = tree ? clamp(230 / depth, 30, 54) : 0;
      const band = tree ? depth * level : messages ? (servers ? 120 : 90) : 6;
      const cells = 16 + band;
      const queue = Math.min(116, 10 * data.largest_queue);
      return { width, narrow, font, left, each, x, level, cells, queue, bottom: cells + HOP + 20 + (queue ? queue + 16 : 0) };
    }

    // Returns the centre of a node of the tree, a machine or a server.
    function place(node) {
      const { each, x, cells, level, size, across } = area;
      if (tree) {
        const leaf = node >= machines - 1;
        return [x + (tree.positions[node] + 0.5) * each, leaf ? cells + HOP / 2 : 16 + tree.levels[node] * level];
      }
      if (node >= machines) return [area.width * ((node - machines + 0.5) / servers), 18];
      if (data.columns) return [x + (column[node] + 0.5) * each, cells + HOP / 2];
      return [((node % across) + 0.5) * size, cells + (Math.floor(node / across) + 0.5) * size];
    }

    // -- drawing -------------------------------------------------------------------------------------------

    let colours = {};
    const readColours = () => {
      for (const [name, probe] of Object.entries(probes)) colours[name] = getComputedStyle(probe).color;
    };

    function text(content, x, y, { align = "center", colour = colours.text, size = area.font, weight = "" } = {}) {
      draw.font = `${weight} ${size}px system-ui, "Liberation Sans", sans-serif`;
      draw.textAlign = align;
      draw.textBaseline = "middle";
      draw.fillStyle = colour;
      draw.fillText(content, x, y);
    }

    function box(x, y, width, height, fill, stroke) {
      if (fill) {
        draw.fillStyle = fill;
        draw.fillRect(x, y, width, height);
      }
      if (stroke) {
        draw.strokeStyle = stroke;
        draw.lineWidth = 1;
        draw.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
      }
    }

    function cross(x, y, size, colour) {
      draw.strokeStyle = colour;
      draw.lineWidth = 2;
      draw.beginPath();
      draw.moveTo(x - size, y - size);
      draw.lineTo(x + size, y + size);
      draw.moveTo(x + size, y - size);
      draw.lineTo(x - size, y + size);
      draw.stroke();
    }

    // Draws what a machine runs: the share of its cores of each piece, and the progress of a single task.
    function drawCell(machine, running, isUp, time, x, y, width, height) {
      box(x, y, width, height, colours.raised, width > 5 ? colours.line : null);
      let used = 0;
      const cores = data.cores[machine] ?? data.cores[0];
      for (const k of running) {
        const part = (pieces.cores[k] ?? pieces.cores[0]) / cores;
        const top = y + height * (1 - used - part);
        const colour = colourOf(pieces.application[k]);
        const hasProgress = cores === 1 && data.columns;
        draw.globalAlpha = hasProgress ? 0.45 : 1;
        box(x, top, width, height * part, colour, cores > 1 && height * part > 4 ? colours.background : null);
        draw.globalAlpha = 1;
        if (hasProgress) {
          const tasks = data.rigid ? 1 : pieces.tasks[k];
          const share = (((time - pieces.start[k]) / Math.max(pieces.length[k], 1e-9)) * tasks) % 1;
          box(x, top, width * share, height * part, colour);
        }
        used += part;
      }
      if (!isUp) {
        box(x, y, width, height, colours.muted);
        if (width > 8) cross(x + width / 2, y + height / 2, Math.min(width, height) / 4, colours.background);
      }
    }

    function drawColumns(state, time) {
      const { each, x, cells, queue, font, narrow } = area;
      const gap = each > 8 ? Math.min(10, each * 0.14) : each > 3 ? 1 : 0;
      const size = font - 1;
      if (tree) {
        draw.strokeStyle = colours.line;
        draw.lineWidth = machines > 40 ? 0.8 : 1.5;
        draw.beginPath();
        for (let node = 1; node < tree.levels.length; node++) {
          const [a, b] = place(node);
          const [c, d] = place((node - 1) >> 1);
          draw.moveTo(a, node >= machines - 1 ? cells : b);
          draw.lineTo(c, d);
        }
        draw.stroke();
        text(narrow ? "tree" : "routers", 0, 16, { align: "left", size, colour: colours.muted });
      }
      text(narrow ? "runs" : "machines", 0, cells + HOP / 2, { align: "left", size, colour: colours.muted });
      if (queue) text(narrow ? "queue" : "queued", 0, cells + HOP + 26, { align: "left", size, colour: colours.muted });
      const running = Array.from({ length: machines }, () => []);
      for (const k of state.running) running[pieces.machine[k]].push(k);
      const stacks = stacksAt(state, time);
      const unitHeight = Math.min(10, queue / largestQueue);
      const every = each >= 16 ? 1 : each >= 6 ? 5 : 10;
      for (let machine = 0; machine < machines; machine++) {
        const from = x + column[machine] * each + gap / 2;
        const width = each - gap;
        drawCell(machine, running[machine], state.up[machine], time, from, cells, width, HOP);
        if (column[machine] % every === 0) text(machine, from + width / 2, cells + HOP + 10, { size, colour: colours.muted });
        let y = cells + HOP + 20;
        let total = 0;
        for (const [application, tasks] of stacks[machine]) {
          const separate = unitHeight >= 4;
          for (let k = 0; k < (separate ? tasks : 1); k++) {
            const height = separate ? unitHeight : tasks * unitHeight;
            box(from + width * 0.1, y, width * 0.8, height - (separate ? 1 : 0), colourOf(application));
            y += height;
          }
          total += tasks;
        }
        if (total && each >= 20) text(total, from + width / 2, y + 8, { size });
      }
    }

    function drawGrid(state, time) {
      const { size, font } = area;
      const gap = size > 12 ? 2 : size > 5 ? 1 : 0;
      const running = Array.from({ length: machines }, () => []);
      for (const k of state.running) running[pieces.machine[k]].push(k);
      const count = applications.tasks.length;
      const totals = Array(machines).fill(0);
      for (const [key, tasks] of state.queued) totals[Math.floor(key / count)] += Math.max(0, tasks);
      for (let machine = 0; machine < machines; machine++) {
        const [x, y] = place(machine).map((centre) => centre - size / 2);
        const inner = size - gap;
        const bar = data.largest_queue ? Math.max(1.5, inner * 0.2) : 0;
        drawCell(machine, running[machine], state.up[machine], time, x, y, inner, inner - bar);
        if (bar && totals[machine]) box(x, y + inner - bar + 0.5, inner * (totals[machine] / largestQueue), bar - 0.5, colours.muted);
      }
    }

    function drawRaster(time) {
      const { size, across } = area;
      const groups = raster.machines.length;
      const interval = clamp(Math.floor((time / span) * raster.intervals), 0, raster.intervals - 1);
      const gap = size > 6 ? 1 : 0;
      let busy = 0;
      let all = 0;
      for (let group = 0; group < groups; group++) {
        const share = raster.share.charCodeAt(interval * groups + group) / 255;
        busy += share * raster.machines[group];
        all += raster.machines[group];
        const x = (group % across) * size;
        const y = area.cells + Math.floor(group / across) * size;
        box(x, y, size - gap, size - gap, raster.colours[Math.round(share * (raster.colours.length - 1))]);
      }
      raster.colours.forEach((shade, k) => box(46 + 14 * k, area.bottom + 12, 14, 12, shade));
      text("0 %", 40, area.bottom + 18, { align: "right", colour: colours.muted });
      text("100 % busy", 52 + 14 * raster.colours.length, area.bottom + 18, { align: "left", colour: colours.muted });
      return `${((100 * busy) / all).toFixed(0)} % of the time of the machines busy`;
    }

    function drawServers() {
      for (let k = 0; k < servers; k++) {
        const [x, y] = place(machines + k);
        box(x - 42, y - 10, 84, 20, colours.raised, colours.muted);
        text(servers > 1 ? `scheduler ${k}` : "scheduler", x, y, { size: area.font - 1 });
      }
    }

    function drawRouters() {
      const radius = clamp(area.each * 0.28, 2.5, 10);
      for (let node = 0; node < (tree ? machines - 1 : 0); node++) {
        const [x, y] = place(node);
        draw.beginPath();
        draw.arc(x, y, radius, 0, 2 * Math.PI);
        draw.fillStyle = colours.background;
        draw.fill();
        draw.strokeStyle = colours.muted;
        draw.lineWidth = 1.2;
        draw.stroke();
        if (radius >= 8) text(`r${node}`, x, y + 0.5, { size: 10, colour: colours.muted });
      }
    }

    // Draws the messages that travel, dots with their numbers of tasks on lines, and the routers between them.
    function drawMessages(time) {
      const small = data.columns ? 2.4 : 1.6;
      const large = area.each >= 14 || !data.columns ? 4 : 3;
      const dots = [];
      for (let k = 0; messages && k < messages.sent.length && messages.sent[k] <= time; k++) {
        const until = messages.sent[k] + messages.travel[k];
        if (until <= time || hidden.has(messages.kind[k])) continue;
        const application = messages.application[k];
        const [a, b] = place(messages.sender[k]);
        const [c, d] = place(messages.receiver[k]);
        const isEdge = tree && (messages.receiver[k] < machines - 1 || messages.sender[k] < machines - 1);
        const isMain = messages.main[k];
        const height = data.columns && !isEdge ? Math.min(70, 14 + Math.abs(a - c) * 0.25) : 0; // of the arc
        const [from, to] = data.columns ? [Math.min(b, area.cells), Math.min(d, area.cells)] : [b, d];
        const colour = application >= 0 ? colourOf(application) : colours.muted;
        if (isMain) {
          draw.strokeStyle = colour;
          draw.globalAlpha = 0.5;
          draw.lineWidth = isEdge ? 2.5 : 1.2;
          draw.beginPath();
          draw.moveTo(a, from);
          draw.quadraticCurveTo((a + c) / 2, (from + to) / 2 - 2 * height, c, to);
          draw.stroke();
          draw.globalAlpha = 1;
        }
        const share = (time - messages.sent[k]) / messages.travel[k];
        const reach = messages.lost[k] ? share / 2 : share;
        const [x, y] = [a + (c - a) * reach, from + (to - from) * reach - 4 * height * reach * (1 - reach)];
        dots.push({ x, y, colour, application, isMain, tasks: messages.tasks[k], isCrossed: messages.lost[k] && share > 0.5 });
      }
      drawRouters();
      for (const { x, y, colour, application, isMain, tasks, isCrossed } of dots) {
        const isLarge = tasks > 0 && area.each >= 20;
        draw.beginPath();
        draw.arc(x, y, isLarge ? 9 : isMain ? large : small, 0, 2 * Math.PI);
        draw.fillStyle = colour;
        draw.fill();
        if (isLarge) text(tasks, x, y + 0.5, { size: tasks > 99 ? 8 : 10, colour: data.inks[application % data.inks.length], weight: "600" });
        if (isCrossed) cross(x, y, 4, colours.text);
      }
    }

    // Marks machines at which an application was just submitted, and those that have just failed for an instant.
    function drawMarks(time) {
      applications.release.forEach((release, k) => {
        const machine = applications.submitter[k];
        const age = played - playOf(release);
        if (machine < 0 || release > time || age > KEPT || !applications.tasks[k]) return;
        const [x, y] = place(tree ? machines - 1 + machine : machine);
        draw.beginPath();
        draw.arc(x, y, 8 + (22 * age) / KEPT, 0, 2 * Math.PI);
        draw.strokeStyle = colourOf(k);
        draw.lineWidth = 3;
        draw.globalAlpha = 1 - age / KEPT;
        draw.stroke();
        draw.globalAlpha = 1;
      });
      outages.machine.forEach((machine, k) => {
        if (outages.end[k] > outages.begin[k] || outages.begin[k] > time || played - playOf(outages.begin[k]) > KEPT) return;
        const [x, y] = place(tree ? machines - 1 + machine : machine);
        cross(x, y, area.size ? area.size / 4 : 6, colours.text);
      });
    }

    const panelHeight = (width) => {
      if (!data.bars) return raster ? 30 : 8;
      const rows = Math.ceil(applications.tasks.length / (width < 700 || applications.tasks.length < 3 ? 1 : 2));
      return 12 + rows * 22;
    };

    // Draws the tasks of each application: done, running and waiting.
    function drawApplications(state, time) {
      const count = applications.tasks.length;
      const across = area.width < 700 || count < 3 ? 1 : 2;
      const rows = Math.ceil(count / across);
      const most = Math.max(...applications.tasks, 1);
      const size = area.font;
      const name = area.narrow ? 54 : 96;
      const wide = area.width / across;
      const room = wide - name - (area.narrow ? 56 : 112);
      for (let k = 0; k < count; k++) {
        const x = Math.floor(k / rows) * wide;
        const y = area.bottom + 12 + (k % rows) * 22;
        text(`${data.item} ${applications.names[k]}`, x, y + 7, { align: "left", size });
        const scale = room / most;
        const parts = [[state.done[k], 1], [state.runs[k], 0.65], [state.waiting[k], 0.3]];
        let from = x + name;
        box(from, y, Math.max(1, applications.tasks[k] * scale), 14, colours.raised);
        for (const [tasks, alpha] of parts) {
          draw.globalAlpha = alpha;
          box(from, y, tasks * scale, 14, colourOf(k));
          from += tasks * scale;
        }
        draw.globalAlpha = 1;
        const isReleased = applications.release[k] <= time;
        box(x + name, y, Math.max(1, applications.tasks[k] * scale), 14, null, isReleased ? colours.muted : colours.line);
        const note = isReleased ? `${state.done[k]}/${applications.tasks[k]}${area.narrow ? "" : " done"}` : area.narrow ? "later" : "submitted later";
        text(note, x + name + applications.tasks[k] * scale + 8, y + 7, { align: "left", size, colour: colours.muted });
      }
    }

    function render() {
      const least = data.columns ? Math.min(WIDE, 80 + LEAST * machines) : 240;
      const width = Math.max(least, Math.floor(canvas.parentElement.clientWidth));
      if (!area || area.width !== width) area = arrange(width);
      const height = Math.ceil(area.bottom + panelHeight(width));
      const ratio = devicePixelRatio || 1;
      if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
        canvas.width = Math.round(width * ratio);
        canvas.height = Math.round(height * ratio);
        canvas.style.width = `${width}px`;
        canvas.style.height = `${height}px`;
      }
      readColours();
      draw.setTransform(ratio, 0, 0, ratio, 0, 0);
      draw.clearRect(0, 0, width, height);
      const time = timeOf(played);
      let summary;
      if (raster) {
        summary = drawRaster(time);
      } else {
        const state = stateAt(time);
        if (servers && messages) drawServers();
        (data.columns ? drawColumns : drawGrid)(state, time);
        drawMessages(time);
        drawMarks(time);
        if (data.bars) drawApplications(state, time);
        const total = (values) => values.reduce((a, b) => a + b, 0);
        const parts = [`${total(state.runs)} running`];
        if (data.largest_queue) parts.push(`${total(state.waiting)} queued`);
        parts.push(`${total(state.pending)} waiting elsewhere`, `${total(state.done)} done`);
        const down = state.up.filter((up) => !up).length;
        summary = `tasks: ${parts.join(", ")}${down ? `; ${down} machine${down > 1 ? "s" : ""} down` : ""}`;
      }
      root.querySelector(".summary").textContent = summary;
      const seconds = begin + time * unit;
      output.textContent = clock(seconds, span * unit);
      const step = length / 1000;
      const pace = ((timeOf(Math.min(length, played + step)) - timeOf(Math.max(0, played - step))) * unit) / (2 * step);
      root.querySelector(".pace").textContent = `${spanText(pace * Number(rate.value))} per second`;
      let news = "";
      for (const [at, line] of events) {
        if (at > time) break;
        news = `${clock(begin + at * unit, span * unit)}: ${line}`;
      }
      log.textContent = news;
      slider.value = String(Math.round((1000 * played) / length));
      slider.setAttribute("aria-valuetext", output.textContent);
      root.dataset.time = String(seconds);
    }

    // -- controls ------------------------------------------------------------------------------------------

    function frame(now) {
      if (!playing) return;
      played += (Math.min(Math.max(now - last, 0), 200) / 1000) * Number(rate.value);
      last = now;
      if (played >= length) {
        played = length;
        pause();
      }
      render();
      if (playing) requestAnimationFrame(frame);
    }

    function play() {
      if (played >= length) played = 0;
      playing = true;
      last = performance.now();
      button.textContent = "Pause";
      requestAnimationFrame(frame);
    }

    function pause() {
      playing = false;
      button.textContent = "Play";
    }

    function seek(at) {
      played = clamp(at, 0, length);
      render();
    }

    button.addEventListener("click", () => (playing ? pause() : play()));
    slider.addEventListener("input", () => seek((Number(slider.value) / 1000) * length));
    rate.addEventListener("change", render);
    slow.addEventListener("change", () => {
      const time = slow.checked ? (played / length) * span : interpolate(played, data.pace.play, data.pace.time);
      seek(playOf(time)); // the same time at the other pace
    });
    if (data.pace.play.length < 3) root.querySelector(".slow").hidden = true;
    root.addEventListener("keydown", (event) => {
      if (event.target.matches("select, input[type=checkbox]") || event.ctrlKey || event.metaKey || event.altKey) return;
      const step = event.shiftKey ? length / 20 : length / 200;
      if (event.key === " " && event.target !== button) playing ? pause() : play();
      else if (event.key === "ArrowLeft") seek(played - step);
      else if (event.key === "ArrowRight") seek(played + step);
      else if (event.key === "Home") seek(0);
      else if (event.key === "End") seek(length);
      else return;
      event.preventDefault();
    });
    if (kinds) {
      const list = root.querySelector(".kinds");
      list.hidden = false;
      kinds.forEach((name, kind) => {
        const label = list.appendChild(document.createElement("label"));
        const check = label.appendChild(document.createElement("input"));
        check.type = "checkbox";
        check.checked = !hidden.has(kind);
        label.append(` ${name}`);
        check.addEventListener("change", () => {
          if (check.checked) hidden.delete(kind);
          else hidden.add(kind);
          render();
        });
      });
    }
    new ResizeObserver(render).observe(canvas.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", render);
    new MutationObserver(render).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    root.gridsim = { seek: (seconds) => seek(playOf((seconds - begin) / unit)), state: () => stateAt(timeOf(played)), length };
    if (raster) raster.share = atob(raster.share);
    render();
    if (root.hasAttribute("data-autoplay") && !matchMedia("(prefers-reduced-motion: reduce)").matches) play();
  }

  document.querySelectorAll(".gridsim-animation").forEach(start);
  // the frame in a notebook is as high as the page in it
  const enclosing = window.frameElement;
  if (enclosing?.classList.contains("gridsim-frame")) {
    const fit = () => (enclosing.style.height = `${document.body.offsetHeight}px`);
    new ResizeObserver(fit).observe(document.body);
  }
})();
