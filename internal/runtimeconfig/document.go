package runtimeconfig

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Intake says what a producer does with new and stored jobs.
type Intake string

const (
	IntakeOpen      Intake = "Open"      // accept and dispatch
	IntakeSuspended Intake = "Suspended" // refuse new jobs, dispatch nothing; running jobs settle
	IntakeDraining  Intake = "Draining"  // refuse new jobs, go on dispatching what is stored
)

// Producer is the document of a producer sidecar. Zero values mean the API's default unless said otherwise.
type Producer struct {
	Namespace string `json:"namespace"`
	Flow      string `json:"flow"`
	FlowUID   string `json:"flowUID"`
	// OperatorAddress is host:port of the FlowStatsCollector, OperatorHost the server name to verify.
	OperatorAddress string `json:"operatorAddress,omitempty"`
	OperatorHost    string `json:"operatorHost,omitempty"`

	// Replicas is the number of producers; more than 1 where the queue is shared.
	Replicas  int    `json:"replicas,omitempty"`
	Intake    Intake `json:"intake"`
	QueueType string `json:"queueType"` // Local, Memory or PostgreSQL; not reloadable
	// QueueSecret and QueueKey say which Secret holds the connection string of a PostgreSQL queue, and under which key: the name of a
	// file in QueueDir. The name of the Secret is for messages.
	QueueSecret          string `json:"queueSecret,omitempty"`
	QueueKey             string `json:"queueKey,omitempty"`
	QueueAttempts        int    `json:"queueAttempts"`
	QueueBackoffMS       int64  `json:"queueBackoffMilliseconds"`
	OperationTimeoutSec  int64  `json:"operationTimeoutSeconds"`
	RetryIntervalMS      int64  `json:"retryIntervalMilliseconds"`
	DeliveryConfirmation bool   `json:"deliveryConfirmation"`
	StreamTimeoutSec     int64  `json:"streamTimeoutSeconds"`
	BacklogMaxJobs       int64  `json:"backlogMaxJobs"`  // 0 is zero
	BacklogMaxBytes      int64  `json:"backlogMaxBytes"` // 0 is zero
	PayloadMaxBytes      int64  `json:"payloadMaxBytes"`
	DeduplicationSec     int64  `json:"deduplicationWindowSeconds"`
	MaxAttempts          int    `json:"maxAttempts"` // 0 = never give up
	BackoffInitialMS     int64  `json:"backoffInitialMilliseconds"`
	BackoffMaxMS         int64  `json:"backoffMaxMilliseconds"`
	HeartbeatSec         int64  `json:"heartbeatSeconds"`
	DeadlineSec          int64  `json:"deadlineSeconds"`
	MaxWindow            int    `json:"maxFlowControlWindow"` // 0 = no cap beyond the protocol's
	Dispatch             string `json:"dispatch,omitempty"`   // RoundRobin or LeastOutstanding
	// RecoverNonce is bumped by a person to start anew after a terminal failure. Halted is the failure that happened under this very
	// nonce, as far as the operator knows: the queue is not loaded then.
	RecoverNonce int64 `json:"recoverNonce,omitempty"`
	Halted       *Halt `json:"halted,omitempty"`
	// TrustNamespace lets live pods of the namespace submit and look jobs up without a token.
	TrustNamespace bool `json:"trustNamespace,omitempty"`
	// AllowedServiceAccounts restricts whose pods may bind; empty = any ServiceAccount of a pod that a pool of this flow owns.
	AllowedServiceAccounts []string `json:"allowedServiceAccounts,omitempty"`
}

// Halt is a terminal failure that a restart does not heal.
type Halt struct {
	Stage  string `json:"stage"`
	Code   string `json:"code,omitempty"` // one of the Failure constants, or empty
	Reason string `json:"reason"`
}

// Worker is the document of a worker sidecar.
type Worker struct {
	Namespace string `json:"namespace"`
	Pool      string `json:"pool"`
	PoolUID   string `json:"poolUID"`
	// Flows are what the worker pulls from. Their names are not reloadable: a pool that changes them has another document.
	Flows []WorkerFlow `json:"flows,omitempty"`
	// Flow, ProducerAddress and ProducerHost repeat the first of Flows for sidecars that know of one flow only.
	Flow            string `json:"flow"`
	ProducerAddress string `json:"producerAddress"`
	ProducerHost    string `json:"producerHost"`

	// DedupMaxProducers and DedupIdleSec bound what is remembered about producers; 0 is no limit.
	DedupMaxProducers int   `json:"dedupMaxProducers"`
	DedupIdleSec      int64 `json:"dedupProducerIdleSeconds"`

	Window           int   `json:"flowControlWindow"` // of each flow
	ResendIntervalMS int64 `json:"resendIntervalMilliseconds"`
	Concurrency      int   `json:"concurrency"`
	// Handler is HandlerStream where the app takes jobs from the stream on WorkerSocket, and empty where they are posted to it over HTTP.
	Handler           string `json:"handler,omitempty"`
	HandlerPort       int32  `json:"handlerPort"`
	HandlerPath       string `json:"handlerPath"`
	HandlerTimeoutSec int64  `json:"handlerTimeoutSeconds"`
	// LeaseRenewSec is how often the sidecar renews the Lease of its pod.
	LeaseRenewSec int64 `json:"leaseRenewSeconds,omitempty"`
}

// HandlerStream is the Worker.Handler of an app that opens a stream.
const HandlerStream = "stream"

// WorkerFlow is one flow as a worker sees it.
type WorkerFlow struct {
	Name string `json:"name"`
	// ProducerAddress is host:port of the flow's WorkPulling service, ProducerHost the server name to verify.
	ProducerAddress string `json:"producerAddress"`
	ProducerHost    string `json:"producerHost"`
}

// AllFlows returns Flows, or the only flow of a document that an older operator wrote.
func (w Worker) AllFlows() []WorkerFlow {
	if len(w.Flows) > 0 {
		return w.Flows
	}
	return []WorkerFlow{{Name: w.Flow, ProducerAddress: w.ProducerAddress, ProducerHost: w.ProducerHost}}
}

// Marshal returns the document for the ConfigMap key config.json, and its hash, which sidecars report as config_hash.
func Marshal[T Producer | Worker](doc T) (text, hash string, err error) {
	raw, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return "", "", fmt.Errorf("encoding the runtime configuration: %w", err)
	}
	return string(raw), Hash(raw), nil
}

// Hash identifies one version of a document.
func Hash(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}
