// What a node's figures mean: how full, how old, and whether that is known at all. A number never goes without its age.

export const METRICS = {
  nic: { label: "NIC", group: "network", used: busierDirection, size: (node) => node.nic_mbps, unit: "Mbit/s" },
  cpu: { label: "CPU", group: "cpu", used: (node) => node.cpu_used_millicores, size: (node) => node.cpu_allocatable_millicores, unit: "millicores" },
  memory: { label: "Memory", group: "memory", used: (node) => node.memory_used_mib, size: (node) => node.memory_allocatable_mib, unit: "MiB" },
};

// Where one colour ends and the next begins, as shares of the capacity.
export const LEVELS = [0.2, 0.4, 0.6, 0.75, 0.9];

// A link carries both directions at once, so the busier one is how full it is.
function busierDirection(node) {
  if (node.rx_mbps === null || node.tx_mbps === null) return null;
  return Math.max(node.rx_mbps, node.tx_mbps);
}

// {state: "known" | "stale" | "unknown", share, level, age}; waited is how long ago the figures arrived here.
export function reading(node, metric, waited, staleAfter) {
  const { group, used, size } = METRICS[metric];
  const age = node[`${group}_age_s`];
  const amount = used(node);
  const capacity = size(node);
  if (amount === null || age === null) return { state: "unknown", why: "no metric" };
  if (!(capacity > 0)) return { state: "unknown", why: "no capacity", age: age + waited };
  const share = Math.round((100 * amount) / capacity) / 100; // as it is shown, so that colour and number agree
  const level = LEVELS.filter((limit) => share >= limit).length;
  return { state: age + waited > staleAfter ? "stale" : "known", share, level, age: age + waited };
}

export const percent = (share) => `${Math.round(share * 100)}%`;

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "unknown";
  if (seconds < 100) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 6000) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} d`;
}

export function amount(value, unit) {
  return value === null || value === undefined ? "unknown" : `${Math.round(value).toLocaleString("en")} ${unit}`;
}

export function signed(value) {
  return `${value < 0 ? "−" : "+"}${Number(Math.abs(value).toPrecision(2))}`;
}

// Names that differ only in the middle are shown by their middle: ip-10-0-1-23.region.internal becomes 1-23.
export function shortNames(names) {
  if (names.length < 2) return names;
  const prefix = commonPrefix(names).lastIndexOf("-") + 1;
  const suffix = commonPrefix(names.map((name) => [...name].reverse().join(""))).lastIndexOf(".") + 1;
  return names.map((name) => (name.length > prefix + suffix ? name.slice(prefix, name.length - suffix) : name));
}

function commonPrefix(names) {
  let length = names[0].length;
  for (const name of names) {
    while (!name.startsWith(names[0].slice(0, length))) length -= 1;
  }
  return names[0].slice(0, length);
}
