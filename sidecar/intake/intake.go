package intake

import (
	"context"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/transport"
)

// Flow is what the intake needs of a flow; *endpoint.Producer is one.
type Flow interface {
	SubmitBatch(ctx context.Context, entries []endpoint.Submission) []endpoint.Answer
	Wait(ctx context.Context, ref queue.JobRef) (endpoint.Settled, error)
	Lookup(ctx context.Context, messageID string) (queue.JobState, error)
	ListDeadLetters(ctx context.Context, after int64, limit int) ([]queue.DeadLetter, error)
	ReadJob(ctx context.Context, seq int64) (protocol.Job, error)
	Redrive(ctx context.Context, ref queue.JobRef, audit string) error
	Drop(ctx context.Context, ref queue.JobRef, audit string) error
	ListOrphans(ctx context.Context, after int64, limit int) ([]queue.Orphan, error)
	AcceptOrphan(ctx context.Context, ref queue.JobRef, audit string) error
	ListAudit(ctx context.Context, after uint64, limit int) ([]queue.AuditLine, error)
}

// Authorizer decides who a caller is and whether it may do what verb says; transport.Authenticator is one.
type Authorizer interface {
	AuthenticateSubmitter(ctx context.Context, token, verb string) (transport.Submitter, error)
}

// Options configure an Intake. Name, Flow and Authorizer are required.
type Options struct {
	// Name is the flow's name, as it stands in the path.
	Name       string
	Flow       Flow
	Authorizer Authorizer
	// Neighbours lets callers in without a token, where the flow trusts its namespace; nil: nobody.
	Neighbours Neighbours
	// MaxPayload is the flow's limit for one payload in bytes; it may change (1 MiB where nil).
	MaxPayload func() int
	// Relay passes requests on while another process takes the jobs of the flow; nil where there is no other.
	Relay *Relay
	// Volatile says that the queue does not survive a restart: 202 instead of 201.
	Volatile bool
	Log      logr.Logger
	// StoreTimeout bounds a submission without ?wait (30 s).
	StoreTimeout time.Duration
	// StreamPatience is how long a line of a stream waits for credit before it is refused (30 s).
	StreamPatience time.Duration
	// LineTimeout is how long a line of a stream may take to arrive, and its answer to be taken (1 min).
	LineTimeout time.Duration
	// StreamTime bounds a stream as a whole (1 h), because its caller is checked once.
	StreamTime time.Duration
	// MemoryBytes bounds all bodies that are being handled (64 MiB); beyond it callers get 429.
	MemoryBytes int64
	// OnAnswer is told every status, for metrics.
	OnAnswer func(status int)
	// OnRefusal is told every refused identity.
	OnRefusal func(*transport.Refusal)
}

// Intake serves one flow.
type Intake struct {
	options Options
	memory  *semaphore.Weighted
}

// New fills in the defaults of options that are left out.
func New(options Options) *Intake {
	if options.MaxPayload == nil {
		options.MaxPayload = func() int { return 1 << 20 }
	}
	setDefault(&options.StoreTimeout, 30*time.Second)
	setDefault(&options.StreamPatience, 30*time.Second)
	setDefault(&options.LineTimeout, time.Minute)
	setDefault(&options.StreamTime, time.Hour)
	if options.MemoryBytes <= 0 {
		options.MemoryBytes = 64 << 20
	}
	if options.OnAnswer == nil {
		options.OnAnswer = func(int) {}
	}
	if options.OnRefusal == nil {
		options.OnRefusal = func(*transport.Refusal) {}
	}
	return &Intake{options: options, memory: semaphore.NewWeighted(options.MemoryBytes)}
}

func setDefault(value *time.Duration, otherwise time.Duration) {
	if *value <= 0 {
		*value = otherwise
	}
}

// Handler serves callers from anywhere: they present a token, or Neighbours know their address.
func (i *Intake) Handler() http.Handler { return i.routes(door{passOn: i.passOn, who: i.caller}) }

// LocalHandler serves the app beside, over a Unix socket that nobody outside of the pod can reach: it acts as subject, the pod's
// own ServiceAccount, and may submit and look jobs up; dead letters and orphans are a person's, and need a token.
func (i *Intake) LocalHandler(subject string) http.Handler {
	return i.routes(door{
		passOn: func(w http.ResponseWriter, r *http.Request, verb string) bool {
			return beside(verb) && i.options.Relay != nil && i.elsewhere(w, r, i.options.Relay.ownToken)
		},
		who: func(_ *http.Request, verb string) (transport.Submitter, error) {
			if beside(verb) {
				return transport.Submitter{Subject: subject}, nil
			}
			return transport.Submitter{}, &transport.Refusal{
				Code: protocol.RefusedIdentity, Label: transport.LabelForbidden,
				Reason: "dead letters and orphans need a token: use the HTTPS intake",
			}
		},
	})
}

// door is one way in.
type door struct {
	// who identifies the sender of a request.
	who func(r *http.Request, verb string) (transport.Submitter, error)
	// passOn answers a request elsewhere, if it does not belong here, and says whether it has.
	passOn func(w http.ResponseWriter, r *http.Request, verb string) bool
}

// action handles an authorised request.
type action func(w http.ResponseWriter, r *http.Request, by transport.Submitter) error

func (i *Intake) routes(way door) http.Handler {
	mux := http.NewServeMux()
	route := func(pattern, verb string, do action) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { i.serve(w, r, way, verb, do) })
	}
	route("POST /v1/flows/{flow}/jobs", transport.VerbCreate, i.submit)
	route("GET /v1/flows/{flow}/jobs/{id}", transport.VerbGet, i.look)
	route("GET /v1/flows/{flow}/dead-letters", transport.VerbList, i.listDeadLetters)
	route("GET /v1/flows/{flow}/dead-letters/{sequence}", transport.VerbList, i.lookAtDeadLetter)
	route("GET /v1/flows/{flow}/dead-letters/{sequence}/payload", transport.VerbRead, i.readPayload)
	route("POST /v1/flows/{flow}/dead-letters/redrive", transport.VerbUpdate, i.redriveMany)
	route("POST /v1/flows/{flow}/dead-letters/drop", transport.VerbDelete, i.dropMany)
	route("POST /v1/flows/{flow}/dead-letters/{sequence}/redrive", transport.VerbUpdate, i.redrive)
	route("DELETE /v1/flows/{flow}/dead-letters/{sequence}", transport.VerbDelete, i.drop)
	route("GET /v1/flows/{flow}/orphans", transport.VerbList, i.listOrphans)
	route("POST /v1/flows/{flow}/orphans/{sequence}/accept", transport.VerbUpdate, i.acceptOrphan)
	route("GET /v1/flows/{flow}/audit", transport.VerbList, i.listAudit)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { miss(w, allowed(mux, r)) })
	return i.watched(mux)
}

func (i *Intake) serve(w http.ResponseWriter, r *http.Request, way door, verb string, do action) {
	if flow := r.PathValue("flow"); flow != i.options.Name {
		kindUnknownFlow.because("this intake serves the flow " + i.options.Name).write(w)
		return
	}
	if way.passOn(w, r, verb) {
		return
	}
	submitter, err := way.who(r, verb)
	if err != nil {
		i.options.OnRefusal(transport.AsRefusal(err))
		problemOf(err).write(w)
		return
	}
	if err := do(w, r, submitter); err != nil {
		problemOf(err).write(w)
	}
}
