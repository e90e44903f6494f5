package fencing

import (
	"context"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/transport"
)

var (
	pods  = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	pools = v1alpha1.GroupVersion.WithResource("workerpools")
)

// Options say which flow is guarded, and for whom.
type Options struct {
	Namespace, Flow string
	// StatefulSet is the name of the flow's producers. A pod of it may submit for the app in it, which is passed on to here by a
	// member that stands by: what the socket of a pod allows, without a role.
	StatefulSet string
	// Audience is the only audience whose tokens count.
	Audience string
	// AllowedServiceAccounts restricts whose pods may bind; it may change. nil or empty: any of a pod that a pool of this flow owns.
	AllowedServiceAccounts func() []string
	// OnPodGone is told the UID of every deleted pod of the namespace: positive evidence that its process is over.
	OnPodGone func(podUID string)
	Log       logr.Logger
	Clock     clock.PassiveClock
}

// Guard is the transport.Authenticator of one flow.
type Guard struct {
	options    Options
	workers    *reviewer
	submitters *reviewer
	clients    Clients
	podCache   cache.SharedIndexInformer
	poolCache  cache.SharedIndexInformer
}

var _ transport.Authenticator = (*Guard)(nil)

// New returns a Guard; Run fills its caches.
func New(options Options, clients Clients) *Guard {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.OnPodGone == nil {
		options.OnPodGone = func(string) {}
	}
	if options.AllowedServiceAccounts == nil {
		options.AllowedServiceAccounts = func() []string { return nil }
	}
	g := &Guard{
		options:    options,
		clients:    clients,
		workers:    newReviewer(options, clients.WorkerTokens, nil),
		submitters: newReviewer(options, clients.SubmitterTokens, clients.Access),
		podCache:   newPodCache(clients.Metadata, options.Namespace),
		poolCache:  newPoolCache(clients.Dynamic, options.Namespace),
	}
	return g
}

// Run keeps the caches until ctx ends.
func (g *Guard) Run(ctx context.Context) error {
	if err := g.podCache.SetTransform(onlyIdentity); err != nil {
		return err
	}
	if _, err := g.podCache.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: g.podReplaced, DeleteFunc: g.podDeleted}); err != nil {
		return err
	}
	ctx = klog.NewContext(ctx, g.options.Log)
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.poolCache.RunWithContext(ctx)
	}()
	g.podCache.RunWithContext(ctx)
	<-done
	return nil
}

func (g *Guard) podDeleted(object any) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	if pod, ok := object.(*metav1.PartialObjectMetadata); ok {
		g.options.OnPodGone(string(pod.UID))
	}
}

// podReplaced notices a deletion and re-creation that the watch missed.
func (g *Guard) podReplaced(before, after any) {
	was, ok := before.(*metav1.PartialObjectMetadata)
	is, alsoOK := after.(*metav1.PartialObjectMetadata)
	if ok && alsoOK && was.UID != is.UID {
		g.options.OnPodGone(string(was.UID))
	}
}

// AuthenticateWorker implements transport.Authenticator.
func (g *Guard) AuthenticateWorker(ctx context.Context, token string) (delivery.Worker, error) {
	who, err := g.workers.token(ctx, token)
	if err != nil {
		return delivery.Worker{}, err
	}
	if refusal := classifyToken(who, g.options.Namespace, g.options.AllowedServiceAccounts()); refusal != nil {
		return delivery.Worker{}, refusal
	}
	owner, revision, err := g.ownerOf(ctx, who)
	if err != nil {
		return delivery.Worker{}, err
	}
	if err := g.poolPulls(ctx, owner); err != nil {
		return delivery.Worker{}, err
	}
	return delivery.Worker{PodUID: who.podUID, PodName: who.podName, Pool: owner.Name, Revision: revision}, nil
}

// ownerOf finds the pool that controls the pod, and its revision that the pod is of.
func (g *Guard) ownerOf(ctx context.Context, who identity) (owner *metav1.OwnerReference, revision string, err error) {
	pod, err := g.podOf(ctx, who)
	if err != nil {
		return nil, "", err
	}
	found, refusal := classifyPod(pod, who)
	if refusal != nil {
		return nil, "", refusal
	}
	return found, pod.Labels[v1alpha1.LabelRevision], nil
}

// podOf finds the pod under the name in a token; nil for none. A just created pod may be missing in the cache: then the API server is
// asked once.
func (g *Guard) podOf(ctx context.Context, who identity) (*metav1.PartialObjectMetadata, error) {
	pod, _ := cached[*metav1.PartialObjectMetadata](g.podCache, g.options.Namespace, who.podName)
	if pod == nil || string(pod.UID) != who.podUID {
		live, err := g.clients.Metadata.Resource(pods).Namespace(g.options.Namespace).Get(ctx, who.podName, metav1.GetOptions{})
		switch {
		case err == nil:
			pod = live
		case !apierrors.IsNotFound(err):
			return nil, undecided("the API server did not answer about the pod: " + shortCause(err))
		}
	}
	return pod, nil
}

// poolPulls checks that the pool names this flow, with one live look where the cache says otherwise: it may be a moment behind.
func (g *Guard) poolPulls(ctx context.Context, owner *metav1.OwnerReference) error {
	if pool, ok := cached[*unstructured.Unstructured](g.poolCache, g.options.Namespace, owner.Name); ok && classifyPool(pool, owner, g.options.Flow) == nil {
		return nil
	}
	pool, err := g.clients.Dynamic.Resource(pools).Namespace(g.options.Namespace).Get(ctx, owner.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return undecided("the API server did not answer about the pool: " + shortCause(err))
	}
	if err != nil {
		pool = nil
	}
	return verdict{refusal: classifyPool(pool, owner, g.options.Flow)}.err()
}

// AuthenticateSubmitter implements transport.Authenticator. Any user whose token has our audience may be one.
func (g *Guard) AuthenticateSubmitter(ctx context.Context, token, verb string) (transport.Submitter, error) {
	who, err := g.submitters.token(ctx, token)
	if err != nil {
		return transport.Submitter{}, err
	}
	if g.isMember(ctx, who, verb) {
		return transport.Submitter{Subject: who.user.Username}, nil
	}
	if err := g.submitters.allowed(ctx, token, verb, who); err != nil {
		return transport.Submitter{}, err
	}
	return transport.Submitter{Subject: who.user.Username}, nil
}

// isMember says whether a token is that of another producer of this flow, which may do what the app in its pod may.
func (g *Guard) isMember(ctx context.Context, who identity, verb string) bool {
	if g.options.StatefulSet == "" || who.namespace != g.options.Namespace || who.podUID == "" || verb != "create" && verb != "get" {
		return false
	}
	pod, err := g.podOf(ctx, who)
	return err == nil && classifyMember(pod, who, g.options.StatefulSet)
}

// reasonOf returns the machine-readable reason of an API error, "" for any other.
func reasonOf(err error) string { return string(apierrors.ReasonForError(err)) }
