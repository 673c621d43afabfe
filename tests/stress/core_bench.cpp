// A core under Verilator: commands from standard input, spikes to standard output.
//   verilator --cc --exe --build -CFLAGS "-DACTION_BITS=4 -DNEURON_BITS=3 -DVALUE_BITS=32 -DMESSAGE_BITS=1"
//     --top-module snn_core snn_core.vlt snn_core.v core_bench.cpp
// The widths are those of the fields of the payloads; a payload has at most 64 bits.
// A command is a line of action, neuron, value, and the cycles in which the core has to be ready again.
// A spike is a line of step, neuron and message, and the answer to READ one of potential, neuron and 0; the end
// of a RUN is a line of "end" and the ignored commands.
// The receiver of spikes is not ready in a quarter of the cycles, at most four one after the other.
#include <cstdint>
#include <cstdio>
#include "Vsnn_core.h"
#include "verilated.h"

static uint64_t field(uint64_t word, int first, int bits) { return (word >> first) & ((1ull << bits) - 1); }

int main(int, char**) {
    VerilatedContext context;
    Vsnn_core core(&context);
    uint32_t random = 1;
    int stalled = 0;
    // One clock cycle; spikes are taken in it.  Return whether the core takes a command in it.
    auto tick = [&] {
        random = random * 1664525u + 1013904223u;
        stalled = (random >> 30) == 0 && stalled < 4 ? stalled + 1 : 0;
        core.m_axis_tready = stalled == 0;
        core.clk = 0;
        core.eval();
        if (core.m_axis_tvalid && core.m_axis_tready) {
            const uint64_t spike = core.m_axis_tdata;
            if (core.m_axis_tlast) {
                printf("end %u\n", (unsigned)core.ignored);
            } else {
                printf("%llu %llu %llu\n", (unsigned long long)field(spike, NEURON_BITS + MESSAGE_BITS, 32),
                       (unsigned long long)field(spike, 0, NEURON_BITS),
                       (unsigned long long)field(spike, NEURON_BITS, MESSAGE_BITS));
            }
        }
        const bool is_taken = core.s_axis_tready;
        core.clk = 1;
        core.eval();
        return is_taken;
    };
    core.rst = 1;
    core.s_axis_tvalid = 0;
    for (int cycle = 0; cycle < 4; ++cycle) tick();
    core.rst = 0;
    long long action, neuron, value, limit;
    while (scanf("%lld %lld %lld %lld", &action, &neuron, &value, &limit) == 4) {
        core.s_axis_tdata = (uint64_t)action | (uint64_t)neuron << ACTION_BITS |
                            field((uint64_t)value, 0, VALUE_BITS) << (ACTION_BITS + NEURON_BITS);
        core.s_axis_tvalid = 1;
        while (!tick() && limit > 0) --limit;
        core.s_axis_tvalid = 0;
        core.clk = 0;
        core.eval();
        for (; !core.s_axis_tready; --limit) {
            if (limit <= 0) {
                printf("hangs in action %lld of neuron %lld, value %lld\n", action, neuron, value);
                return 1;
            }
            tick();
            core.clk = 0;
            core.eval();
        }
    }
    return 0;
}
