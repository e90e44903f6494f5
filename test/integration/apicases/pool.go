package apicases

import (
	"fmt"
	"strings"
)

var poolCases = []Case{
	{Name: "the smallest pool", Base: Pool},
	{Name: "a pool name of 40 characters", Base: Pool, Object: []string{set("metadata.name", strings.Repeat("a", 40))}},
	{
		Name: "a pool name of 41 characters", Base: Pool, Object: []string{set("metadata.name", strings.Repeat("a", 41))},
		Refused: "metadata.name must be at most 40 characters: the names of pods are built from it",
	},
	{
		Name: "a pool name that starts with a digit", Base: Pool, Object: []string{`metadata: {name: 7packers}`},
		Refused: "it becomes a part of host names",
	},

	{Name: "a pool without a spec", Base: Pool, Object: []string{`spec: null`}, Refused: "spec: Required value"},
	{Name: "a pool without a flow", Base: Pool, Object: []string{`spec: {flows: null}`}, Refused: "spec.flows: Required value"},
	{Name: "a pool of an empty list of flows", Base: Pool, Object: []string{`spec: {flows: []}`}, Refused: "spec.flows"},
	{Name: "a pool of two flows", Base: Pool, Object: []string{`spec: {flows: [orders, returns]}`}},
	{Name: "a pool of 16 flows", Base: Pool, Object: []string{set("spec.flows", flowNames(16))}},
	{Name: "a pool of 17 flows", Base: Pool, Object: []string{set("spec.flows", flowNames(17))}, Refused: "must have at most 16 items"},
	{Name: "a pool that names a flow twice", Base: Pool, Object: []string{`spec: {flows: [orders, orders]}`}, Refused: "Duplicate value"},
	{Name: "a pool that gets a second flow", Base: Pool, Update: []string{`spec: {flows: [orders, returns]}`}},
	{Name: "a pool of a flow without a name", Base: Pool, Object: []string{`spec: {flows: [""]}`}, Refused: "spec.flows[0]"},
	{Name: "a pool of a flow in another namespace", Base: Pool, Object: []string{`spec: {flows: ["eu/orders"]}`}, Refused: "spec.flows[0]"},
	{Name: "a pool that moves to another flow", Base: Pool, Update: []string{`spec: {flows: [returns]}`}},
	{Name: "a pool without a template", Base: Pool, Object: []string{`spec: {template: null}`}, Refused: "spec.template: Required value"},

	{Name: "a window equal to concurrency", Base: Pool, Object: []string{`spec: {flowControlWindow: 8, concurrency: 8}`}},
	{Name: "a worker that forgets no producer", Base: Pool, Object: []string{`spec: {dedup: {maxProducers: 0, producerIdleSeconds: 0}}`}},
	{
		Name: "as many producers as flows", Base: Pool,
		Object: []string{`spec: {flows: [orders, returns], dedup: {maxProducers: 2}}`},
	},
	{
		Name: "fewer producers than flows", Base: Pool,
		Object:  []string{`spec: {flows: [orders, returns], dedup: {maxProducers: 1}}`},
		Refused: "dedup.maxProducers must be 0 or at least the number of flows",
	},
	{
		Name: "producers forgotten after ten resends", Base: Pool,
		Object: []string{`spec: {resendIntervalMilliseconds: 2000, dedup: {producerIdleSeconds: 20}}`},
	},
	{
		Name: "producers forgotten while they resend", Base: Pool,
		Object:  []string{`spec: {resendIntervalMilliseconds: 2000, dedup: {producerIdleSeconds: 19}}`},
		Refused: "dedup.producerIdleSeconds must be 0 or at least 10 times resendIntervalMilliseconds",
	},
	{
		Name: "a window below concurrency", Base: Pool, Object: []string{`spec: {flowControlWindow: 7, concurrency: 8}`},
		Refused: "concurrency must not be greater than flowControlWindow",
	},

	{Name: "a handler without a member", Base: Pool, Object: []string{`spec: {handler: {}}`}, Refused: "exactly one handler must be set: http or stream"},
	{Name: "a handler of streams", Base: Pool, Object: []string{`spec: {handler: {stream: {timeoutSeconds: 30}}}`}},
	{
		Name: "two handlers", Base: Pool, Object: []string{`spec: {handler: {http: {}, stream: {}}}`},
		Refused: "exactly one handler must be set: http or stream",
	},
	{Name: "a handler path with a query", Base: Pool, Object: []string{`spec: {handler: {http: {path: "/jobs?kind=orders"}}}`}},
	{Name: "a handler path without a slash", Base: Pool, Object: []string{`spec: {handler: {http: {path: jobs}}}`}, Refused: "spec.handler.http.path"},
	{Name: "a handler path with a blank", Base: Pool, Object: []string{`spec: {handler: {http: {path: "/a job"}}}`}, Refused: "spec.handler.http.path"},
	{Name: "a handler on port 9440", Base: Pool, Object: []string{`spec: {handler: {http: {port: 9440}}}`}, Refused: "belong to the sidecar"},
	{Name: "a handler on port 9441", Base: Pool, Object: []string{`spec: {handler: {http: {port: 9441}}}`}, Refused: "belong to the sidecar"},
	{Name: "a handler on port 9443", Base: Pool, Object: []string{`spec: {handler: {http: {port: 9443}}}`}, Refused: "belong to the sidecar"},
	{Name: "a handler on port 9444", Base: Pool, Object: []string{`spec: {handler: {http: {port: 9444}}}`}, Refused: "belong to the sidecar"},
	{Name: "a handler on port 9442", Base: Pool, Object: []string{`spec: {handler: {http: {port: 9442}}}`}},

	{
		Name: "a grace period that covers the drain", Base: Pool,
		Object: []string{addToTemplate(`terminationGracePeriodSeconds: 90`), `spec: {drain: {timeoutSeconds: 60}}`},
	},
	{
		Name: "a grace period shorter than the drain", Base: Pool,
		Object:  []string{addToTemplate(`terminationGracePeriodSeconds: 89`), `spec: {drain: {timeoutSeconds: 60}}`},
		Refused: "template.spec.terminationGracePeriodSeconds must be at least drain.timeoutSeconds + 30",
	},

	{Name: "a surge alone", Base: Pool, Object: []string{`spec: {update: {maxSurge: 1, maxUnavailable: 0}}`}},
	{Name: "percentages", Base: Pool, Object: []string{`spec: {update: {maxSurge: 100%, maxUnavailable: 0%}}`}},
	{
		Name: "neither surge nor unavailable", Base: Pool, Object: []string{`spec: {update: {maxSurge: 0, maxUnavailable: 0%}}`},
		Refused: "maxSurge and maxUnavailable must not both be 0",
	},
	{
		Name: "a surge below 0", Base: Pool, Object: []string{`spec: {update: {maxSurge: -1}}`},
		Refused: "must be a whole number of at least 0 or a percentage from 0% to 100%",
	},
	{
		Name: "a surge that is a word", Base: Pool, Object: []string{`spec: {update: {maxSurge: half}}`},
		Refused: "must be a whole number of at least 0 or a percentage from 0% to 100%",
	},
	{
		Name: "more unavailable than there are", Base: Pool, Object: []string{`spec: {update: {maxUnavailable: 101%}}`},
		Refused: "must be a whole number of at least 0 or a percentage from 0% to 100%",
	},

	{Name: "a pool whose runtime is updated at once", Base: Pool, Object: []string{`spec: {runtime: {updatePolicy: Rolling}}`}},
	{
		Name: "a pool whose runtime is updated by hand", Base: Pool, Object: []string{`spec: {runtime: {updatePolicy: Manual}}`},
		Refused: "spec.runtime.updatePolicy",
	},
	{Name: "a paused pool", Base: Pool, Object: []string{`spec: {paused: Enabled}`}},
	{Name: "a pool that is paused by a boolean", Base: Pool, Object: []string{`spec: {paused: true}`}, Refused: "spec.paused"},
}

func flowNames(n int) (names []any) {
	for i := range n {
		names = append(names, fmt.Sprint("flow-", i))
	}
	return names
}

func addToTemplate(field string) string { return "spec: {template: {spec: {" + field + "}}}" }
