"""How each library's job is started on a network, and what its ranks say."""
import json
import pathlib
import random
import subprocess

LIMIT_S = 600  # of one measurement
HERE = pathlib.Path(__file__).resolve().parent


class Failed(Exception):
    """A job gave no result."""


def rows_of(text):
    """Of all ranks; launchers may put something before each line."""
    rows = []
    for line in text.splitlines():
        start, end = line.find('{"bytes"'), line.rfind("}")
        if start >= 0:
            rows.append(json.loads(line[start:end + 1]))
    return rows


def joined(rows, ranks, where):
    """One row of a job: the time is rank 0's, the rest sums over the ranks."""
    if len(rows) != ranks:
        raise Failed(f"{len(rows)} of {ranks} ranks gave a result: {where}")
    first = next(row for row in rows if row["rank"] == 0)
    return {**first, "wrong": sum(row["wrong"] for row in rows), "cpu_s": sum(row["cpu_s"] for row in rows)}


def finish(process, command):
    try:
        return process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"no result within {LIMIT_S} s from {' '.join(map(str, command))}") from error


def launch(network, ranks, command, **more):
    """A launcher that starts all ranks."""
    command = network.launcher([str(word) for word in command])
    with subprocess.Popen(command, env={**network.environment, **more}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            out, err = finish(process, command)
        finally:
            process.kill()
    return joined(rows_of(out), ranks, f"{' '.join(command)}\n{err[-2000:]}")


def run_syncline(options, network, ranks, size):
    command = [options.build / "tools/syncline", "run"]
    if network.rate_limited:
        command += ["-H", ",".join(f"{host}:1" for host in network.hosts), "--rsh", network.remote_shell]
    else:
        command += ["-np", ranks, "--transport", network.name]
    return launch(network, ranks, command + [options.build / "bench/peers/bench_all_reduce_syncline", size])


def run_openmpi(options, network, ranks, size):
    command = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", ranks]
    if network.name != "shm":
        command += ["--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", network.interface]
    if network.rate_limited:
        command += ["--host", ",".join(f"{host}:1" for host in network.hosts), "--mca", "plm_rsh_agent", network.remote_shell,
                    "--mca", "oob_tcp_if_include", network.interface]
    return launch(network, ranks, command + [options.build / "bench/peers/bench_all_reduce_openmpi", size])


def run_mpich(options, network, ranks, size):
    command = ["mpiexec.mpich", "-np", ranks]
    more = {}
    if network.name != "shm":
        more = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": network.interface, "MPIR_CVAR_NOLOCAL": "1"}
    if network.rate_limited:
        command += ["-hosts", ",".join(network.hosts), "-launcher", "rsh", "-launcher-exec", network.remote_shell,
                    "-iface", network.interface]
    return launch(network, ranks, command + [options.build / "bench/peers/bench_all_reduce_mpich", size], **more)


def run_gloo(options, network, ranks, size):
    settings = {"MASTER_ADDR": network.address, "WORLD_SIZE": str(ranks), "GLOO_SOCKET_IFNAME": network.interface,
                "MASTER_PORT": str(random.randint(20000, 60000))}
    command = [options.python, str(HERE / "all_reduce_gloo.py"), str(size)]
    processes = [
        subprocess.Popen(network.on_host(rank, command), env={**network.environment, **settings, "RANK": str(rank)},
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in range(ranks)
    ]
    try:
        outputs = [finish(process, command) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return joined([row for out, _ in outputs for row in rows_of(out)], ranks, f"gloo\n{outputs[0][1][-2000:]}")


RUNNERS = {"syncline": run_syncline, "openmpi": run_openmpi, "mpich": run_mpich, "gloo": run_gloo}
