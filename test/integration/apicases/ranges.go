package apicases

import "fmt"

// Range is an integer field with its bounds.
type Range struct {
	Base Base
	// Path is the dotted path of the field.
	Path string
	// Min and Max are the smallest and the greatest accepted values.
	Min, Max int64
	// AtMin and AtMax are merge patches that other rules ask for beside the bound.
	AtMin, AtMax string
}

// Ranges are all integer fields of both specs.
var Ranges = []Range{
	{Base: Flow, Path: "spec.producer.retryIntervalMilliseconds", Min: 50, Max: 60000},
	{Base: Flow, Path: "spec.producer.streamTimeoutSeconds", Min: 1, Max: 3600},
	{
		Base: Flow, Path: "spec.producer.replicas", Min: 1, Max: 5,
		AtMax: `spec: {queue: {type: PostgreSQL, postgreSQL: {connectionSecretRef: {name: db}}}}`,
	},
	{Base: Flow, Path: "spec.queue.operationTimeoutSeconds", Min: 1, Max: 300},
	{Base: Flow, Path: "spec.queue.retry.attempts", Min: 1, Max: 20},
	{Base: Flow, Path: "spec.queue.retry.backoffMilliseconds", Min: 1, Max: 60000},
	{Base: Flow, Path: "spec.backlog.maxJobs", Min: 0, Max: 100000000, AtMin: `spec: {backlog: {maxBytes: 0}}`},
	{Base: Flow, Path: "spec.backlog.maxBytes", Min: 0, Max: 17592186044416, AtMin: `spec: {backlog: {maxJobs: 0}}`},
	{Base: Flow, Path: "spec.payload.maxBytes", Min: 1, Max: 16777216},
	{Base: Flow, Path: "spec.deduplicationWindowSeconds", Min: 1, Max: 604800},
	{Base: Flow, Path: "spec.redelivery.maxAttempts", Min: 0, Max: 10000},
	{Base: Flow, Path: "spec.redelivery.backoff.initialMilliseconds", Min: 1, Max: 3600000, AtMax: `spec: {redelivery: {backoff: {maxMilliseconds: 86400000}}}`},
	{Base: Flow, Path: "spec.redelivery.backoff.maxMilliseconds", Min: 1, Max: 86400000, AtMin: `spec: {redelivery: {backoff: {initialMilliseconds: 1}}}`},
	{Base: Flow, Path: "spec.liveness.heartbeatSeconds", Min: 1, Max: 60, AtMax: `spec: {liveness: {deadlineSeconds: 600}}`},
	{Base: Flow, Path: "spec.liveness.deadlineSeconds", Min: 4, Max: 600, AtMin: `spec: {liveness: {heartbeatSeconds: 1}}`},
	{Base: Flow, Path: "spec.maxFlowControlWindow", Min: 1, Max: 10000},
	{Base: Flow, Path: "spec.recoverNonce", Min: 1, Max: 2147483647},

	{Base: Pool, Path: "spec.replicas", Min: 0, Max: 10000},
	{Base: Pool, Path: "spec.flowControlWindow", Min: 1, Max: 10000},
	{Base: Pool, Path: "spec.resendIntervalMilliseconds", Min: 100, Max: 60000, AtMax: `spec: {dedup: {producerIdleSeconds: 600}}`},
	{Base: Pool, Path: "spec.dedup.maxProducers", Min: 0, Max: 1000000},
	{Base: Pool, Path: "spec.dedup.producerIdleSeconds", Min: 0, Max: 31536000},
	{Base: Pool, Path: "spec.concurrency", Min: 1, Max: 1000, AtMax: `spec: {flowControlWindow: 1000}`},
	{Base: Pool, Path: "spec.handler.http.port", Min: 1, Max: 65535},
	{Base: Pool, Path: "spec.handler.http.timeoutSeconds", Min: 1, Max: 86400},
	{Base: Pool, Path: "spec.handler.stream.timeoutSeconds", Min: 1, Max: 86400},
	{Base: Pool, Path: "spec.drain.timeoutSeconds", Min: 1, Max: 86400},
}

// Cases are the four cases of a range: accepted at both bounds, refused beyond.
func (r Range) Cases() []Case {
	return []Case{
		{Name: r.Path + " at its minimum", Base: r.Base, Object: []string{set(r.Path, r.Min), r.AtMin}},
		{Name: r.Path + " at its maximum", Base: r.Base, Object: []string{set(r.Path, r.Max), r.AtMax}},
		{
			Name: r.Path + " below its minimum", Base: r.Base, Object: []string{set(r.Path, r.Min-1), r.AtMin},
			Refused: fmt.Sprintf("should be greater than or equal to %d", r.Min),
		},
		{
			Name: r.Path + " above its maximum", Base: r.Base, Object: []string{set(r.Path, r.Max+1), r.AtMax},
			Refused: fmt.Sprintf("should be less than or equal to %d", r.Max),
		},
	}
}
