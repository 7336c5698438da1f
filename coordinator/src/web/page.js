"use strict";
const main = document.getElementById("main"), status = document.getElementById("status");
const path = location.pathname, jobId = (path.match(/^\/job\/(\d+)$/) || [])[1];
for (const link of document.querySelectorAll("nav a")) if (link.getAttribute("href") === path || jobId && link.getAttribute("href") === "/jobs") link.setAttribute("aria-current", "page");
const jobLink = (id, text) => node("a", { href: "/job/" + id }, text);
const swatch = id => node("span", { class: "swatch", "aria-hidden": "true", style: `background:${colour(id)}` });
const soft = text => node("p", { class: "soft" }, text);
// rho of a job that lasted less than a few rounds says more of the waiting for its first round than of fairness.
const isShort = (job, state) => job.attained_s < 2 * state.round_s;
function rho(job, state) {
  if (job.rho == null) return "–";
  if (isShort(job, state)) return node("span", { class: "soft", title: "It runs shorter than two rounds: waiting for a round's begin weighs more than the share it gets" }, fixed(job.rho, 2) + " (short)");
  return node("span", { class: job.rho > 1 ? "bad" : null }, fixed(job.rho, 2));
}
function eta(job, longest) {
  if (job.jct_s != null) return "took " + duration(job.jct_s);
  if (!job.eta) return job.epochs == null ? "–" : "not known yet";
  const part = seconds => (100 * Math.min(1, seconds / longest)).toFixed(1);
  const { low_s, mean_s, high_s } = job.eta, text = `${duration(mean_s)} (${duration(low_s)} to ${duration(high_s)})`;
  if (!longest) return text;
  return node("span", {}, node("span", { class: "bar", "aria-hidden": "true" }, node("i", { class: "range", style: `left:${part(low_s)}%;width:${part(high_s - low_s)}%` }), node("i", { class: "mark", style: `left:${part(mean_s)}%` })), node("span", {}, `${duration(mean_s)} `), node("span", { class: "whole soft" }, `(${duration(low_s)} to ${duration(high_s)})`));
}
function progress(job) {
  if (!job.epochs) return "–";
  const percent = Math.min(100, 100 * job.epochs_done / job.epochs);
  return node("span", { title: `${job.epochs_done.toFixed(2)} of ${job.epochs} epochs` }, node("span", { class: "bar", "aria-hidden": "true" }, node("i", { style: `left:0;width:${percent.toFixed(1)}%` })), node("span", { class: "whole" }, `${fixed(job.epochs_done, 1)} of ${job.epochs}`));
}
const order = ["running", "yielding", "starting", "queued", "held"];
// Active jobs first, then the ended ones, the newest first.
function sorted(jobs) {
  const rank = job => order.indexOf(job.state) < 0 ? order.length : order.indexOf(job.state);
  return jobs.slice().sort((a, b) => rank(a) - rank(b) || (rank(a) === order.length ? b.id - a.id : a.id - b.id));
}
function jobTable(caption, jobs, state) {
  const longest = Math.max(0, ...jobs.map(job => job.eta ? job.eta.high_s : 0));
  const row = job => [String(job.id), node("span", {}, swatch(job.id), jobLink(job.id, job.name)), job.state, job.user, String(job.gpus), String(job.weight), job.policy || "–", progress(job), job.batch ? String(job.batch) : "–", String(job.preemptions), rho(job, state), eta(job, longest)];
  return table(caption, ["#ID", "~Name", "State", "User", "#GPUs", "#Weight", "Policy", "~Epochs", "#Batch", "#Preempted", "#rho", "~Ends in"], jobs.map(row));
}
function overview(state) {
  const jobs = sorted(state.jobs).filter(job => job.jct_s == null);
  const ended = sorted(state.jobs).filter(job => job.jct_s != null).slice(0, 5);
  return [timeline(state), section("Active jobs", jobs.length ? jobTable("Active jobs", jobs, state) : soft("Nothing runs or waits.")),
    ended.length ? section("Ended last", jobTable("Ended last", ended, state), node("p", {}, node("a", { href: "/jobs" }, "all jobs"))) : null];
}
function jobs(state) {
  return [section("Jobs", state.jobs.length ? jobTable("Jobs", sorted(state.jobs), state) : soft("No job has been handed in."),
    soft("rho is the completion time over the one with an equal share of the devices: at most 1 is fair. Jobs shorter than two rounds are marked: for them it says little."))];
}
function fairness(state) {
  const users = state.users.map(user => [user.user, `${user.jobs} (${user.active_jobs} active)`, String(user.weight), user.gpus_max == null ? "–" : String(user.gpus_max), duration(user.gpu_s), node("span", {}, node("span", { class: "bar", "aria-hidden": "true" }, node("i", { style: `left:0;width:${(100 * user.share).toFixed(1)}%` })), (user.share * 100).toFixed(1) + " %"), duration(user.wasted_gpu_s), String(user.preemptions), fixed(user.mean_rho, 2), fixed(user.worst_rho, 2)]);
  const [kept, made] = state.forecasts;
  return [section("Fairness by user", users.length ? table("Fairness by user", ["User", "Jobs", "#Weight", "#Cap", "#Device time", "~Share", "#Wasted", "#Preempted", "#Mean rho", "#Worst rho"], users) : soft("Nobody has run anything."),
    soft("Device time is the service that a user's jobs have received. Wasted is time on devices without lasting progress: starts, which are no service, and work after the last checkpoint.")),
  section("Forecasts", node("p", {}, made ? `${kept} of ${made} intervals given for jobs that have finished held their end (${(100 * kept / made).toFixed(0)} %, 80 % is meant).` : "No job has finished that was forecast."))];
}
function cluster(state) {
  const devices = state.nodes.flatMap(machine => machine.devices.map(device => [machine.name, node("span", { class: machine.state === "up" ? null : "bad" }, machine.state), device.kind + " " + device.index, device.model || "–", device.memory_bytes ? Math.round(device.memory_bytes / 2 ** 30) + " GiB" : "–", device.job ? jobLink(device.job, "job " + device.job) : "idle", duration(machine.heard_ago_s) + " ago"]));
  const pools = state.pools || [], waits = pools.flatMap(pool => pool.jobs.filter(job => !job.joined).map(job => [pool.name, job.name, job.state || "asked for", job.reason || "–", job.host || "–", duration(job.asked_ago_s), job.job ? jobLink(job.job, "job " + job.job) : "any"]));
  const troubles = pools.filter(pool => pool.trouble).map(pool => node("p", { class: "bad" }, `${pool.name}: ${pool.trouble}`));
  const queue = pools.length ? section("Slurm's queue", ...troubles, waits.length ? table("Slurm's queue", ["Pool", "Slurm job", "State", "Reason", "Host", "Asked", "For"], waits) : soft("Nothing waits in it.")) : null;
  return [section("Cluster", devices.length ? table("Cluster", ["Machine", "State", "Device", "~Model", "#Memory", "Runs", "Heard"], devices) : soft("No machine has joined.")), queue,
    section("Coordinator", node("dl", {}, [["Version", state.program], ["Starts on this store", String(state.epoch)], ["Records", String(state.records)], ["Policy", state.policy], ["Last plan took", fixed(state.solve_s, 2) + " s"], ["Certified gap to the best plan", state.gap == null ? "–" : (100 * state.gap).toFixed(2) + " %"]].flatMap(([name, value]) => [node("dt", {}, name), node("dd", {}, value)])))];
}
function events(view) {
  const rows = view.events.map(it => [String(it.number), new Date(it.unix_s * 1000).toLocaleString(), it.kind.replace(/_/g, " "), it.job ? jobLink(it.job, "job " + it.job) : "–", it.what || "–"]);
  return [section("Events", rows.length ? table("Events", ["#Number", "When", "What", "Job", "~Details"], rows) : soft("Nothing has happened."), soft("The newest of the durable log, ticks and renewals left out; `shockwave events` prints all of it."))];
}
function jobPage(view, state) {
  const job = view.job, ended = job.ended_unix_s, curve = view.curve, from = job.submitted_unix_s;
  const facts = [["State", job.state + (job.reason ? ": " + job.reason : "")], ["User", `${job.user}, weight ${job.weight}`], ["Command", job.command.join(" ")], ["Devices", job.devices.join(", ") || "none of " + job.gpus + " now"], ["Policy", job.policy || "plain command"],
    ["Epochs", progress(job)], ["Ends in", eta(job)], ["rho", rho(job, state)], ["Leases", `${job.leases}, preempted ${job.preemptions === 1 ? "once" : job.preemptions + " times"}`], ["Service", duration(job.attained_s)],
    ["Metrics", Object.entries(job.metrics).map(([name, value]) => `${name} ${short(value)}`).join(", ") || "–"], ["Checkpoint", job.checkpoint ? `step ${job.checkpoint.step} in ${job.checkpoint.uri}` : "none yet"]];
  const since = unix_s => unix_s - from, series = field => curve.map(point => [point.epochs, point[field]]);
  const forecasts = view.forecasts.map(it => [since(it.unix_s), since(it.expected_unix_s)]);
  const band = view.forecasts.map(it => [since(it.unix_s), since(it.earliest_unix_s), since(it.latest_unix_s)]);
  const held = ended && view.forecasts.length && job.state === "finished" ? `${view.forecasts_held[0]} of ${view.forecasts_held[1]} intervals held the end.` : null;
  const regimes = job.regimes.map(regime => [String(regime.batch), regime.epochs.toFixed(2), regime.epoch_s == null ? "–" : regime.epoch_s.toFixed(2) + " s", "trained"]);
  const ahead = view.ahead.map(regime => [String(regime.batch), regime.epochs.toFixed(2), regime.epoch_s.toFixed(2) + " s", "expected"]);
  document.title = `Job ${job.id} · Shockwave`;
  return [section(`Job ${job.id}: ${job.name}`, node("dl", {}, facts.flatMap(([name, value]) => [node("dt", {}, name), node("dd", {}, value)]))),
    section("Forecast against reality", chart("Expected completion time, as it was forecast over time", "", forecasts, { band, end: ended && job.state === "finished" ? since(ended) : null, x: duration, y: duration, xName: "after submission" }),
      soft("Line: expectation. Band: four in five such jobs end within. Dashed: the true end." + (held ? " " + held : ""))),
    section("Training", node("div", { class: "charts" }, chart("Batch size", "samples", series("batch"), { step: true }), chart("Loss", "", series("loss")), chart("Gradient noise scale", "samples", series("noise_scale")), chart("Gradient norm", "", series("grad_norm")))),
    section("Batch sizes", regimes.length + ahead.length ? table("Batch sizes", ["#Batch", "#Epochs", "#An epoch takes", "Which"], regimes.concat(ahead)) : soft("Nothing has been reported.")),
    section("Log, its end", node("pre", { tabindex: "0", "aria-label": "Log, its end" }, view.log || "nothing was printed"))];
}
const titles = { "/": "Shockwave", "/jobs": "Jobs · Shockwave", "/fairness": "Fairness · Shockwave", "/cluster": "Cluster · Shockwave", "/events": "Events · Shockwave" };
const views = { "/": overview, "/jobs": jobs, "/fairness": fairness, "/cluster": cluster };
if (titles[path]) document.title = titles[path];
const show = content => patchChildren(main, content.filter(it => it));
let last = null, busy = false;
async function draw(state) {
  last = state;
  status.className = "";
  status.textContent = `round ${state.round}, ${duration(state.round_left_s)} left · ${state.policy} · ${state.gpus} devices · ${state.jobs.filter(job => job.jct_s == null).length} active jobs`;
  if (views[path]) return show(views[path](state));
  if (busy) return;
  busy = true;
  try {
    const reply = await fetch(jobId ? "/api/job/" + jobId : "/api/events");
    if (reply.ok) return show(jobId ? jobPage(await reply.json(), state) : events(await reply.json()));
    show([section("Not here", node("p", {}, await reply.text()), node("p", {}, node("a", { href: "/jobs" }, "all jobs")))]);
    // It will not come to be by asking again.
    if (reply.status === 404) source.close();
  } catch { lost(); } finally { busy = false; }
}
function lost() { status.className = "bad"; status.textContent = "the coordinator does not answer; trying again"; }
const source = new EventSource("/api/live");
source.onmessage = message => draw(JSON.parse(message.data));
source.onerror = lost;
addEventListener("resize", () => { if (last) draw(last); });
