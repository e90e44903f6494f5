package pool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/controllers/podbuilder"
	"github.com/workpulling/workpulling/internal/children"
	"github.com/workpulling/workpulling/internal/podhealth"
)

// young is the age below which a pod that ended makes the next creation back off.
const young = 2 * time.Minute

// occurrence is an Event that is sent when the reconcile has succeeded.
type occurrence struct {
	kind, reason, action, note string
}

// outcome is what an apply did.
type outcome struct {
	mu     sync.Mutex
	events []occurrence
	// again says that something has to be looked at soon, without an event of the API to wait for.
	again bool
}

func (o *outcome) say(kind, reason, action, format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, occurrence{kind, reason, action, fmt.Sprintf(format, args...)})
}

func (o *outcome) lookAgain() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.again = true
}

// apply carries the plan out. Steps are independent of each other; the failure of one does not stop the others.
func (r *Reconciler) apply(ctx context.Context, pool *v1alpha1.WorkerPool, plan Plan, known *remembered) (*outcome, error) {
	out := &outcome{}
	errs := make([]error, len(plan.Steps)+1)
	var group errgroup.Group
	group.SetLimit(asking)
	for i, step := range plan.Steps {
		group.Go(func() error {
			if err := r.step(ctx, pool, step, known, out); err != nil {
				errs[i] = fmt.Errorf("%s of worker %s: %w", step.Verb, step.Worker.Name, err)
			}
			return nil
		})
	}
	// The functions return no error; theirs are in errs.
	_ = group.Wait()
	errs[len(plan.Steps)] = r.create(ctx, pool, plan.Create, known, out)
	err := errors.Join(errs...)
	if err != nil {
		known.trusted = false
	}
	return out, err
}

func (r *Reconciler) step(ctx context.Context, pool *v1alpha1.WorkerPool, step Step, known *remembered, out *outcome) error {
	w := step.Worker
	target := r.target(pool, &w)
	logger := log.FromContext(ctx).WithValues("pod", w.Name, "podUID", w.UID, "reason", step.Why)
	r.Metrics.Step(pool.Namespace, pool.Name, string(step.Verb))
	switch step.Verb {
	case Remove:
		if w.Age < young {
			r.BackOff.Next(string(pool.UID), r.Clock.Now())
		}
		out.say(corev1.EventTypeWarning, "WorkerEnded", "Replacing", "Worker %s ended: %s", w.Name, podhealth.TerminalCause(w.pod))
		return r.delete(ctx, w)
	case Uncount:
		return r.relabel(ctx, w, map[string]any{v1alpha1.LabelPoolUID: nil}, nil)
	case Relabel:
		labels := map[string]any{v1alpha1.LabelPoolUID: string(pool.UID)}
		for key, value := range lifelong(pool, w.pod) {
			labels[key] = value
		}
		return r.relabel(ctx, w, labels, nil)
	case Release:
		out.lookAgain()
		cordoned, err := r.Control.CordonIfIdle(ctx, target)
		if err != nil || !cordoned {
			logger.V(1).Info("Leaving a worker that is busy after all", "error", err)
			return nil
		}
		return r.markAndDelete(ctx, pool, step, out)
	case Delete:
		return r.markAndDelete(ctx, pool, step, out)
	case Drain:
		out.lookAgain()
		if !w.Draining {
			if err := r.mark(ctx, w, step.Why); err != nil {
				return err
			}
			out.say(corev1.EventTypeNormal, "WorkerDraining", "Draining", "Worker %s finishes its jobs and leaves: %s", w.Name, step.Why)
		}
		if err := r.Control.StartDrain(ctx, target); err != nil {
			// The request is repeated for as long as the pod is marked, and the drain timeout runs already.
			logger.Info("Cannot reach a worker to drain it", "error", err.Error())
		}
	case Expire:
		out.say(corev1.EventTypeWarning, v1alpha1.ReasonDrainTimedOut, "Deleting", "Worker %s: %s; its jobs run again elsewhere", w.Name, step.Why)
		return r.delete(ctx, w, client.GracePeriodSeconds(v1alpha1.DrainGraceMarginSeconds))
	case Replace:
		out.lookAgain()
		if !r.stillExpired(ctx, pool.Namespace, w, known) {
			return nil
		}
		out.say(corev1.EventTypeWarning, "WorkerReplaced", "Replacing", "Replaced worker %s: %s", w.Name, step.Why)
		return r.delete(ctx, w)
	case Undrain:
		out.lookAgain()
		if err := r.Control.Uncordon(ctx, target); err != nil {
			logger.Info("Cannot reach a worker to take it back", "error", err.Error())
			return nil
		}
		if !w.Draining {
			return nil
		}
		out.say(corev1.EventTypeNormal, "WorkerTakenBack", "Undraining", "Worker %s stays: %s", w.Name, step.Why)
		return r.relabel(ctx, w, map[string]any{v1alpha1.LabelPoolUID: string(pool.UID)}, map[string]any{v1alpha1.AnnotationDraining: nil})
	}
	return nil
}

func (r *Reconciler) markAndDelete(ctx context.Context, pool *v1alpha1.WorkerPool, step Step, out *outcome) error {
	w := step.Worker
	if w.Counted || !w.Draining {
		if err := r.mark(ctx, w, step.Why); err != nil {
			return err
		}
	}
	if err := r.delete(ctx, w); err != nil {
		return err
	}
	out.say(corev1.EventTypeNormal, "WorkerDeleted", "Deleting", "Deleted worker %s of %s: %s", w.Name, pool.Name, step.Why)
	return nil
}

// mark takes a worker out of the selector and notes that it leaves.
func (r *Reconciler) mark(ctx context.Context, w Worker, why string) error {
	return r.relabel(ctx, w, map[string]any{v1alpha1.LabelPoolUID: nil}, map[string]any{v1alpha1.AnnotationDraining: why})
}

// relabel patches labels and annotations; nil removes one. The UID in the patch makes the API server refuse it for another pod.
func (r *Reconciler) relabel(ctx context.Context, w Worker, labels, annotations map[string]any) error {
	metadata := map[string]any{"uid": w.UID, "labels": labels}
	if annotations != nil {
		metadata["annotations"] = annotations
	}
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("encoding the labels: %w", err)
	}
	return client.IgnoreNotFound(r.Client.Patch(ctx, w.pod.DeepCopy(), client.RawPatch(types.MergePatchType, body)))
}

func (r *Reconciler) delete(ctx context.Context, w Worker, options ...client.DeleteOption) error {
	uid := w.pod.UID
	err := r.Client.Delete(ctx, w.pod.DeepCopy(), append(options, client.Preconditions{UID: &uid})...)
	if apierrors.IsConflict(err) {
		// Another pod has the name, so this one is gone.
		return nil
	}
	return client.IgnoreNotFound(err)
}

// create makes n workers, in batches that double, so that a refusal costs one request and not n.
func (r *Reconciler) create(ctx context.Context, pool *v1alpha1.WorkerPool, n int, known *remembered, out *outcome) error {
	for batch := 1; n > 0; batch *= 2 {
		size := min(batch, n)
		errs := make([]error, size)
		var group errgroup.Group
		group.SetLimit(asking)
		for i := range size {
			group.Go(func() error {
				errs[i] = r.createOne(ctx, pool, out)
				return nil
			})
		}
		_ = group.Wait()
		if err := firstOf(errs); err != nil {
			return r.refused(ctx, pool, err, known, out)
		}
		known.refusal = podhealth.Problem{}
		n -= size
	}
	return nil
}

func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) createOne(ctx context.Context, pool *v1alpha1.WorkerPool, out *outcome) error {
	pod, err := podbuilder.WorkerPod(pool, r.Image, r.NewName(pool.Name))
	if err != nil {
		return err
	}
	if err := r.Client.Create(ctx, pod); err != nil {
		return err
	}
	r.Metrics.Step(pool.Namespace, pool.Name, "Create")
	out.say(corev1.EventTypeNormal, "WorkerCreated", "Creating", "Created worker %s", pod.Name)
	return nil
}

// refused backs off. A refusal is a condition and not an error: trying again faster does not help.
func (r *Reconciler) refused(ctx context.Context, pool *v1alpha1.WorkerPool, err error, known *remembered, out *outcome) error {
	out.lookAgain()
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if children.NamespaceTerminating(err) {
		return nil
	}
	r.BackOff.Next(string(pool.UID), r.Clock.Now())
	problem := podhealth.Refusal(err)
	wrong := (*podbuilder.TemplateError)(nil)
	if errors.As(err, &wrong) {
		problem = podhealth.Problem{Reason: v1alpha1.ReasonTemplateInvalid, Message: wrong.Error()}
	}
	if problem.Reason != known.refusal.Reason {
		out.say(corev1.EventTypeWarning, problem.Reason, "Creating", "%s", problem.Message)
	}
	known.refusal = problem
	log.FromContext(ctx).Info("Cannot create a worker", "reason", problem.Reason, "error", err.Error())
	if wrong == nil && !podhealth.IsAnswer(err) {
		known.trusted = false
	}
	return nil
}
