'use strict';
// The page of a running system. Everything that it shows comes from /events as JSON, and goes into the page as text.

const SVG = 'http://www.w3.org/2000/svg';
const MOST_READINGS = 240;
const MOST_LINES = 1000;
const token = new URLSearchParams(location.hash.slice(1)).get('token');
const byId = (id) => document.getElementById(id);
// By name, the elements of each tenant.
const tenants = new Map();
let readings = [];
// The acts that the run offers to those who have the token.
let offered = [];

function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function drawn(name, attributes, parent) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (parent) parent.append(made);
  return made;
}

const rounded = (value, places = 0) => value.toLocaleString('en', { maximumFractionDigits: places, minimumFractionDigits: places });
const known = (tenant, text) => (tenant.seconds > 0 ? text : '–');
const micros = (ns) => (ns > 0 ? rounded(ns / 1000) : '–');

function time(ns) {
  if (ns >= 1e9) return `${ns / 1e9} s`;
  if (ns >= 1e6) return `${ns / 1e6} ms`;
  return ns >= 1e3 ? `${ns / 1e3} µs` : `${ns} ns`;
}

function ofTenant(name) {
  if (tenants.has(name)) return tenants.get(name);
  const row = element('tr');
  row.dataset.tenant = name;
  byId('tenants').append(row);
  const box = element('div', undefined, 'curve');
  box.dataset.tenant = name;
  const svg = drawn('svg', { viewBox: '0 0 360 130', role: 'img' });
  const reason = element('span', '', 'why');
  box.append(element('strong', name), reason, svg);
  byId('curves').append(box);
  const made = { row, cells: [], svg, reason, acts: undefined };
  for (let count = 0; count < 14; count += 1) {
    const cell = element('td', '', count > 1 && count < 13 ? 'number' : undefined);
    made.cells.push(cell);
    row.append(cell);
  }
  tenants.set(name, made);
  return made;
}

function showRow(tenant) {
  const { row, cells } = ofTenant(tenant.tenant);
  const both = tenant.both;
  const texts = [
    tenant.tenant,
    tenant.is_open ? tenant.class ?? '–' : 'closed',
    known(tenant, rounded(both.requests_per_second)),
    known(tenant, rounded(both.bytes_per_second / 1e6, 1)),
    micros(both.p50_ns), micros(both.p99_ns), micros(both.p999_ns), micros(both.peak_ns),
    rounded(tenant.in_ring), rounded(tenant.in_device),
    known(tenant, `${rounded(tenant.held_back * 100)} %`),
    rounded(tenant.sums.refused), rounded(tenant.sums.forbidden),
  ];
  texts.forEach((text, index) => { cells[index].textContent = text; });
  row.classList.toggle('closed', !tenant.is_open);
  cells[10].classList.toggle('held', tenant.held_back > 0.5);
  row.dataset.rate = tenant.seconds > 0 ? both.requests_per_second : 0;
}

// The reason for which a tenant gets nothing done, or less than it wants.
function why(name) {
  const [before, now] = [readings.at(-2), readings.at(-1)].map((reading) => reading?.tenants.find((one) => one.tenant === name));
  const more = (key) => before !== undefined && now.sums[key] > before.sums[key];
  if (!now.is_open) return 'no session';
  if (readings.at(-1).servers.some((one) => one.server === now.server && !one.controller_is_up)) return 'its controller is down';
  if (more('forbidden')) return 'forbidden: it has no rights to the blocks';
  if (more('refused')) return 'refused: its requests are invalid';
  if (now.held_back > 0.5) return 'held back by its limit or class';
  return now.seconds > 0 && now.both.requests_per_second === 0 ? 'it makes no requests' : '';
}

// The figures of a tenant in all readings; undefined where there are none.
const history = (name) => readings.map((reading) => reading.tenants.find((one) => one.tenant === name && one.seconds > 0));

function curve({ tenant: name, server }, scale, mostRate) {
  const { svg, reason } = ofTenant(name);
  reason.textContent = why(name);
  svg.replaceChildren();
  const [left, right, top, bottom] = [52, 350, 8, 112];
  const x = (index) => left + ((right - left) * (index + MOST_READINGS - readings.length)) / (MOST_READINGS - 1);
  const y = (ns) => bottom - ((bottom - top) * (Math.log10(ns) - scale[0])) / (scale[1] - scale[0]);
  for (let power = scale[0]; power <= scale[1]; power += 1) {
    const at = y(10 ** power);
    drawn('line', { x1: left, x2: right, y1: at, y2: at }, svg);
    drawn('text', { x: left - 6, y: at + 4, 'text-anchor': 'end' }, svg).textContent = time(10 ** power);
  }
  const all = history(name);
  const rate = (one) => bottom - ((bottom - top) * one.both.requests_per_second) / mostRate;
  for (const part of parts(all, () => true)) {
    const line = part.map(([index, one]) => `L${x(index)},${rate(one)}`).join('');
    drawn('path', { class: 'rate', d: `M${x(part[0][0])},${bottom}${line}L${x(part.at(-1)[0])},${bottom}z` }, svg);
  }
  for (const [kind, key] of [['p50', 'p50_ns'], ['p99', 'p99_ns'], ['peak', 'peak_ns']]) {
    for (const part of parts(all, (one) => one.both[key] > 0)) {
      const points = part.map(([index, one]) => `${x(index)},${y(one.both[key])}`);
      // A point alone is a short line.
      drawn('path', { class: kind, d: `M${points.join('L')}${points.length === 1 ? 'h2' : ''}` }, svg);
    }
  }
  const begins = readings.map((reading) => reading.servers.find((one) => one.server === server)?.since);
  begins.forEach((since, index) => {
    // A new incarnation of the tenant's server.
    if (index === 0 || since === undefined || begins[index - 1] === undefined || since === begins[index - 1]) return;
    drawn('line', { class: 'restart', x1: x(index), x2: x(index), y1: top, y2: bottom }, svg);
  });
  const [first, last] = [readings[0], readings.at(-1)];
  drawn('text', { x: right, y: 126, 'text-anchor': 'end' }, svg).textContent = `${rounded(last.at, 1)} s`;
  drawn('text', { x: x(0), y: 126 }, svg).textContent = readings.length > 40 ? `${rounded(first.at, 1)} s` : '';
}

// Runs of readings with figures, each reading with its number.
function parts(all, fits) {
  const found = [];
  let open = false;
  all.forEach((one, index) => {
    if (!one || !fits(one)) { open = false; return; }
    if (!open) found.push([]);
    open = true;
    found.at(-1).push([index, one]);
  });
  return found;
}

function showCurves(last) {
  const values = readings.flatMap((reading) => reading.tenants.flatMap(({ both }) => [both.p50_ns, both.p99_ns, both.peak_ns])).filter((ns) => ns > 0);
  const low = values.length ? Math.floor(Math.log10(Math.min(...values))) : 3;
  const high = values.length ? Math.ceil(Math.log10(Math.max(...values))) : 6;
  const rates = readings.flatMap((reading) => reading.tenants.map(({ both }) => both.requests_per_second));
  for (const tenant of last.tenants) curve(tenant, [low, Math.max(high, low + 1)], Math.max(1, ...rates));
}

function showGraph(last) {
  const most = Math.max(1, ...last.tenants.map(({ both }) => both.requests_per_second));
  // Requests go by rings, signals and frames; calls open sessions and ask for rights.
  for (const line of document.querySelectorAll('#graph g[data-from]:not([data-kind=call], [data-kind=control])')) {
    const { from, to } = line.dataset;
    const tenant = last.tenants.find((one) => (one.tenant === from && one.server === to) || (one.tenant === to && one.server === from));
    const rate = tenant?.both.requests_per_second ?? 0;
    line.classList.toggle('busy', rate > 0);
    line.style.setProperty('--wide', `${(1.6 + 3 * (Math.log1p(rate) / Math.log1p(most))).toFixed(1)}px`);
  }
  for (const box of document.querySelectorAll('#graph g[data-component]')) {
    const name = box.dataset.component;
    const tenant = last.tenants.find((one) => one.tenant === name);
    const server = last.servers.find((one) => one.server === name);
    box.classList.toggle('down', (tenant && !tenant.is_open) || (server && !server.controller_is_up) || false);
    const rect = box.querySelector('rect');
    let label = box.querySelector('text');
    if (!tenant || !rect) continue;
    label ??= drawn('text', { 'font-size': 11, 'font-weight': 600, x: Number(rect.getAttribute('x')) + 14, y: Number(rect.getAttribute('y')) + Number(rect.getAttribute('height')) - 8 }, box);
    label.textContent = tenant.is_open ? `${rounded(tenant.both.requests_per_second)} IOPS, ${rounded(tenant.both.bytes_per_second / 1e6, 1)} MB/s` : 'no session';
  }
}

function showServers(last) {
  const shown = last.servers.map((one) => element('p', `${one.server}: runs since ${rounded(one.since, 1)} s, its controller is ${one.controller_is_up ? 'up' : 'DOWN'}, ${one.open_sessions} sessions are open, ${one.faults} faults so far`, one.controller_is_up ? 'faint' : 'bad'));
  const servers = byId('servers');
  // Buttons stay, so that nobody misses one.
  servers.querySelectorAll('p').forEach((line) => line.remove());
  servers.prepend(...shown);
  for (const { server } of last.servers) {
    if (!offered.includes('kill') || [...servers.querySelectorAll('.acts')].some((one) => one.dataset.component === server)) continue;
    const acts = ofComponent(server);
    acts.append(element('span', server), button('kill', () => ({ act: 'kill', component: server })));
    servers.append(acts);
  }
}

async function act(what) {
  const answer = byId('answer');
  answer.className = '';
  answer.textContent = '…';
  try {
    const response = await fetch('act', { method: 'POST', headers: { Authorization: `Bearer ${token}` }, body: JSON.stringify(what) });
    answer.className = response.ok ? 'good' : 'bad';
    answer.textContent = await response.text();
  } catch {
    answer.className = 'bad';
    answer.textContent = 'the page is not served any more: run the command again';
  }
}

function button(text, what) {
  const made = element('button', text);
  made.type = 'button';
  made.dataset.act = text;
  made.addEventListener('click', () => act(what()));
  return made;
}

function field(name, hint) {
  const made = element('input');
  made.name = name;
  made.placeholder = hint;
  made.setAttribute('aria-label', hint);
  return made;
}

function ofComponent(component, names) {
  const made = element('span', undefined, 'acts');
  made.dataset.component = component;
  return made;
}

function addActs({ tenant, class: now }) {
  const made = ofTenant(tenant);
  if (!offered.length || made.acts) return;
  made.acts = ofComponent(tenant);
  if (offered.includes('shares')) {
    const choice = element('select');
    choice.name = 'class';
    for (const one of ['urgent', 'high', 'medium', 'low']) choice.append(element('option', one));
    choice.value = now ?? 'medium';
    const iops = field('iops', 'IOPS/at once');
    const values = () => [`class=${choice.value}`, ...(iops.value ? [`iops=${iops.value}`] : [])];
    made.acts.append(choice, iops, button('set', () => ({ act: 'set', tenant, values: values() })));
  }
  if (offered.includes('rights')) {
    const blocks = field('blocks', 'first+count');
    blocks.value = 'all';
    for (const name of ['revoke', 'grant']) made.acts.append(name === 'revoke' ? blocks : '', button(name, () => ({ act: name, tenant, blocks: blocks.value })));
  }
  if (offered.includes('pause')) for (const name of ['pause', 'resume']) made.acts.append(button(name, () => ({ act: name, tenant })));
  if (offered.includes('kill')) made.acts.append(button('kill', () => ({ act: 'kill', component: tenant })));
  made.cells[13].append(made.acts);
}

function showLog(lines) {
  const log = byId('log');
  const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
  for (const line of lines) log.append(element('li', line));
  while (log.childElementCount > MOST_LINES) log.firstElementChild.remove();
  if (atEnd) log.scrollTop = log.scrollHeight;
}

function watch() {
  const events = new EventSource('events');
  events.addEventListener('open', () => {
    // A new connection begins with all that is kept.
    readings = [];
    byId('log').replaceChildren();
    byId('state').textContent = 'running';
  });
  events.addEventListener('error', () => { byId('state').textContent = 'connecting'; });
  events.addEventListener('message', ({ data }) => {
    const news = JSON.parse(data);
    offered = token === null ? [] : news.acts;
    readings = readings.concat(news.readings).slice(-MOST_READINGS);
    showLog(news.log);
    const last = readings.at(-1);
    if (last && news.readings.length) {
      for (const tenant of last.tenants) { showRow(tenant); addActs(tenant); }
      showServers(last);
      showCurves(last);
      showGraph(last);
    }
    if (news.over) {
      events.close();
      byId('state').textContent = news.over;
      document.querySelectorAll('.acts button').forEach((one) => { one.disabled = true; });
      document.querySelectorAll('#graph g.busy').forEach((line) => line.classList.remove('busy'));
    }
  });
}

// A page that was opened before the system runs has nothing to show.
if (byId('tenants')) watch();
else setTimeout(() => location.reload(), 1000);
