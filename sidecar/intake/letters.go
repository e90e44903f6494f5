package intake

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/sidecar/handler"
)

// Bounds of one decision about many dead letters.
const (
	defaultMany = 1000
	// hands is how many of them are written at a time; the queue writes together what comes together.
	hands = 16
)

func (i *Intake) lookAtDeadLetter(w http.ResponseWriter, r *http.Request, _ transport.Submitter) error {
	l, err := i.letterOf(r)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, typeJSON, viewOf(l))
	return nil
}

// readPayload answers with the job as it was submitted, a CloudEvent in binary mode, for a person and not for a browser. Who read it is
// in the log.
func (i *Intake) readPayload(w http.ResponseWriter, r *http.Request, by transport.Submitter) error {
	l, err := i.letterOf(r)
	if err != nil {
		return err
	}
	job, err := i.options.Flow.ReadJob(r.Context(), l.StoreSeq)
	if err != nil {
		return err
	}
	i.options.Log.Info("A person read the payload of a dead letter", "by", by.Subject, "messageID", l.MessageID, "sequence", l.StoreSeq)
	header := w.Header()
	for name, value := range job.Headers {
		if strings.HasPrefix(name, protocol.HeaderCloudEvent) {
			header.Set(name, handler.Attribute(value))
		}
	}
	header.Set("Content-Type", job.Headers[protocol.HeaderContentType])
	header.Set("Content-Disposition", fmt.Sprintf("attachment; filename=\"dead-letter-%d\"", l.StoreSeq))
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(job.Payload)
	return nil
}

// manyView is what became of many dead letters.
type manyView struct {
	// Done were decided now, Gone by somebody else in the meantime.
	Done int64 `json:"done"`
	Gone int64 `json:"gone"`
	// Next is the after of the following request, 0 behind the last.
	Next int64 `json:"next,omitempty"`
}

func (i *Intake) redriveMany(w http.ResponseWriter, r *http.Request, by transport.Submitter) error {
	return i.decideMany(w, r, by, queue.AuditRedrive, i.options.Flow.Redrive)
}

func (i *Intake) dropMany(w http.ResponseWriter, r *http.Request, by transport.Submitter) error {
	return i.decideMany(w, r, by, queue.AuditDrop, i.options.Flow.Drop)
}

// decideMany carries out one decision about all dead letters that the query chooses, up to its limit. One that is re-driven and fails
// again keeps its sequence, so who goes on at next meets none twice.
func (i *Intake) decideMany(w http.ResponseWriter, r *http.Request, by transport.Submitter, deed string,
	do func(context.Context, queue.JobRef, string) error,
) error {
	query := r.URL.Query()
	chosen, explicit, err := choiceOf(query)
	if err == nil && !explicit {
		err = malformed("which ones? Say all=true, or choose by reason, id, from and to")
	}
	if err != nil {
		return err
	}
	after, err := number(query.Get("after"), 0, protocol.MaxSequence)
	if err != nil {
		return err
	}
	limit, err := number(query.Get("limit"), defaultMany, maxScan)
	if err != nil {
		return err
	}
	reason, err := reasonOf(w, r)
	if err != nil {
		return err
	}
	extendDeadline(w, 2*i.options.StoreTimeout)
	letters, next, err := i.scan(r.Context(), after, int(limit), chosen)
	if err != nil {
		return err
	}
	out, err := i.each(r.Context(), letters, func(ctx context.Context, ref queue.JobRef) error { return do(ctx, ref, auditOf(by, reason)) })
	i.options.Log.Info("A person decided about many jobs", "deed", deed, "by", by.Subject, "reason", reason, "done", out.Done, "gone", out.Gone)
	if err != nil {
		return kindUnavailable.because(fmt.Sprintf("%d were decided, and then the queue did not answer in time. Repeat the request, which is safe.",
			out.Done)).after(unavailablePause)
	}
	if out.Next == 0 {
		out.Next = next
	}
	writeJSON(w, http.StatusOK, typeJSON, out)
	return nil
}

// each does something to several dead letters at a time, and begins no more once its time is over; Next then says where to go on.
func (i *Intake) each(ctx context.Context, letters []queue.DeadLetter, do func(context.Context, queue.JobRef) error) (out manyView, err error) {
	var done, gone atomic.Int64
	enough, cancel := context.WithTimeout(ctx, i.options.StoreTimeout)
	defer cancel()
	var last int64
	work, failed := errgroup.WithContext(ctx)
	work.SetLimit(hands)
	for _, l := range letters {
		if last > 0 && (enough.Err() != nil || failed.Err() != nil) {
			out.Next = last
			break
		}
		last = l.StoreSeq
		work.Go(func() error {
			switch err := do(ctx, l.JobRef); {
			case err == nil:
				done.Add(1)
			case errors.Is(err, endpoint.ErrNotFound):
				gone.Add(1)
			default:
				return err
			}
			return nil
		})
	}
	err = work.Wait()
	out.Done, out.Gone = done.Load(), gone.Load()
	return out, err
}
