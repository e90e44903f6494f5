package operator

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/certs"
)

const (
	// startPatience is how long an operator that starts waits for the API server. It is less than its startup probe allows, so that the
	// log says why it ended.
	startPatience = 50 * time.Second
	// tryLimit is how long one request may hang.
	tryLimit = 15 * time.Second
)

// startBackoff are the pauses between tries.
var startBackoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 10, Cap: 5 * time.Second}

// reach makes the first requests to the API server, and repeats them while it does not answer: it may be slow to start itself, or refuse
// us until it has seen our roles. What no try mends is returned at once.
func reach(ctx context.Context, log logr.Logger, request func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	var last error
	err := startBackoff.DelayFunc().Until(limited, true, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, tryLimit)
		defer cancel()
		err := request(ctx)
		if errors.Is(err, certs.ErrDamaged) {
			return false, err
		}
		if err != nil && last == nil {
			log.Info("Waiting for the API server", "cause", err.Error())
		}
		last = err
		return err == nil, nil
	})
	if last != nil && limited.Err() != nil {
		return fmt.Errorf("waiting for the API server: %w", last)
	}
	return err
}

// ourKinds are those that every installation serves from its CRDs.
var ourKinds = []client.Object{&v1alpha1.WorkPullingFlow{}, &v1alpha1.WorkerPool{}}

// lookUp makes the mapper learn our kinds and those that are cached. What is built on it later then asks the API server nothing.
func lookUp(mapper meta.RESTMapper, scheme *runtime.Scheme, cached iter.Seq[client.Object]) error {
	for _, object := range slices.AppendSeq(slices.Clone(ourKinds), cached) {
		kind, err := apiutil.GVKForObject(object, scheme)
		if err != nil {
			return err
		}
		if _, err := mapper.RESTMapping(kind.GroupKind(), kind.Version); err != nil {
			return fmt.Errorf("looking up kind %s: %w", kind.Kind, err)
		}
	}
	return nil
}
