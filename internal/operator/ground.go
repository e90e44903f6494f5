package operator

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/flowstats"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/fencing"
)

// Requests a second to the API server. Its own priority and fairness is the real limit.
const qps, burst = 100, 200

// Scheme returns a scheme with all kinds that the operator reads or writes.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := clientscheme.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("adding the core kinds: %w", err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("adding our kinds: %w", err)
	}
	return scheme, nil
}

// ground is what the manager and the clients beside it are built on. Making it asks the API server nothing.
type ground struct {
	config  *rest.Config
	scheme  *runtime.Scheme
	mapper  meta.RESTMapper
	caching cache.Options
}

func newGround(config *rest.Config, options Options) (g ground, err error) {
	g.config = rest.CopyConfig(config)
	g.config.QPS, g.config.Burst = qps, burst
	if g.scheme, err = Scheme(); err != nil {
		return g, err
	}
	if g.caching, err = cacheOptions(options.WatchNamespaces, options.Confined); err != nil {
		return g, err
	}
	transport, err := rest.HTTPClientFor(g.config)
	if err != nil {
		return g, fmt.Errorf("making a client: %w", err)
	}
	if g.mapper, err = apiutil.NewDynamicRESTMapper(g.config, transport); err != nil {
		return g, fmt.Errorf("preparing the look-up of kinds: %w", err)
	}
	return g, nil
}

// lookUp makes the mapper learn our kinds and those that are cached. What is built on it later then asks the API server for no kind.
func (g ground) lookUp() error {
	ours := []client.Object{&v1alpha1.WorkPullingFlow{}, &v1alpha1.WorkerPool{}}
	for _, object := range slices.AppendSeq(ours, maps.Keys(g.caching.ByObject)) {
		kind, err := apiutil.GVKForObject(object, g.scheme)
		if err != nil {
			return fmt.Errorf("naming the kind of %T: %w", object, err)
		}
		if _, err := g.mapper.RESTMapping(kind.GroupKind(), kind.Version); err != nil {
			return fmt.Errorf("looking up kind %s: %w", kind.Kind, err)
		}
	}
	return nil
}

// judge says who reports: by review, or by the keys of the cluster where tokens cannot be reviewed.
func (g ground) judge(direct client.Client, options Options, log logr.Logger) (flowstats.Judge, error) {
	if !options.Confined {
		return flowstats.ByReview(direct), nil
	}
	verifier, err := fencing.NewVerifier(g.config, runtimeconfig.TokenAudience, clock.RealClock{}, rand.Float64, log.WithName("reports"))
	if err != nil {
		return nil, fmt.Errorf("preparing to verify tokens: %w", err)
	}
	return flowstats.Within(options.WatchNamespaces, verifier.Verify), nil
}
