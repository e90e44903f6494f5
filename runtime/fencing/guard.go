package fencing

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

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
	// TrustNamespace says whether pods of the namespace may submit without a token; it may change. nil: never.
	TrustNamespace func() bool
	// OnPodGone is told the UID of every deleted pod of the namespace: positive evidence that its process is over.
	OnPodGone func(podUID string)
	// OnIncarnationOver is told which process of a pod is over, because a newer one holds the pod's Lease or the Lease was deleted.
	OnIncarnationOver func(podUID, bootNonce, reason string)
	// StateDir is a directory of the runtime's own, where the key set and what was seen of pods are kept for a process that starts while
	// the API server is away. It must not be shared with an app: who writes there decides whose tokens count. Empty for none; one that is
	// not there is none. FlowUID says whose state it is.
	StateDir, FlowUID string
	Log               logr.Logger
	Clock             clock.PassiveClock
	// Random is the jitter of the pace of questions, of [0, 1).
	Random func() float64
}

// Guard is the transport.Authenticator of one flow.
type Guard struct {
	options    Options
	workers    *reviewer
	submitters *reviewer
	clients    Clients
	podCache   cache.SharedIndexInformer
	poolCache  cache.SharedIndexInformer
	keys       *keyring
	judgements *lru.Cache
	recall     *recall
	// offlines counts the tokens that were verified without a question, badRecords the files that could not be used.
	offlines, badRecords atomic.Uint64
	enough               func() <-chan struct{}    // closed when the caches have had time to be filled
	silence              atomic.Pointer[time.Time] // when the API server last did not answer about an object
	// incarnations tells which process of a pod may bind.
	incarnations *incarnations
	neighbours   *Neighbours
}

var (
	_ transport.Authenticator            = (*Guard)(nil)
	_ transport.IncarnationAuthenticator = (*Guard)(nil)
)

// New returns a Guard; Run fills its caches.
func New(options Options, clients Clients) *Guard {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.OnPodGone == nil {
		options.OnPodGone = func(string) {}
	}
	if options.OnIncarnationOver == nil {
		options.OnIncarnationOver = func(string, string, string) {}
	}
	if options.AllowedServiceAccounts == nil {
		options.AllowedServiceAccounts = func() []string { return nil }
	}
	if options.Random == nil {
		options.Random = rand.Float64
	}
	g := &Guard{
		options:    options,
		clients:    clients,
		podCache:   newPodCache(clients.Metadata, options.Namespace),
		poolCache:  newObjectCache(clients.Dynamic, pools, options.Namespace, ""),
		judgements: lru.New(cacheEntries),
		enough:     sync.OnceValue(func() <-chan struct{} { return after(fillPatience) }),
		keys: &keyring{
			source: clients.Keys, own: clients.OwnToken, record: recordIn(options, "keys.json"),
			clock: options.Clock, random: options.Random, log: options.Log,
		},
		recall: &recall{record: recordIn(options, "seen.json"), flow: options.Flow, clock: options.Clock, log: options.Log},
	}
	g.workers = newReviewer(options, clients.WorkerTokens, nil, g.recall.changed)
	g.submitters = newReviewer(options, clients.SubmitterTokens, clients.Access, g.recall.changed)
	for what, err := range map[string]error{"keys": g.keys.load(), "pods": g.recall.load()} {
		if err != nil {
			g.badRecords.Add(1)
			options.Log.Error(err, "What an earlier process knew is not used: until the API server answers, nobody can bind because of it", "what", what)
		}
	}
	g.submitters.recallGrants(g.recall.kept.Grants)
	g.neighbours = newNeighbours(options, clients.Dynamic)
	g.incarnations = newIncarnations(&g.options, clients.Dynamic, g.recall.kept.Leases, g.recall.changed)
	return g
}

// after returns a channel that is closed after a while.
func after(d time.Duration) <-chan struct{} {
	out := make(chan struct{})
	time.AfterFunc(d, func() { close(out) })
	return out
}

// recordIn is a file of StateDir, none where that is not there.
func recordIn(options Options, name string) record {
	if info, err := os.Stat(options.StateDir); options.StateDir == "" || err != nil || !info.IsDir() {
		return record{}
	}
	return record{path: filepath.Join(options.StateDir, "identity-"+name), owner: options.FlowUID}
}

// Neighbours knows who may submit without a token, if anybody may. Run keeps it.
func (g *Guard) Neighbours() *Neighbours { return g.neighbours }

// tick is how often is looked whether something is due.
const tick = time.Second

// Run keeps the caches and the records until ctx ends.
func (g *Guard) Run(ctx context.Context) error {
	if err := g.podCache.SetTransform(onlyIdentity); err != nil {
		return err
	}
	podEvents := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { g.recall.changed(recordNews) },
		UpdateFunc: g.podReplaced, DeleteFunc: g.podDeleted,
	}
	if _, err := g.podCache.AddEventHandler(podEvents); err != nil {
		return err
	}
	poolEvents := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { g.recall.changed(recordNews) },
		UpdateFunc: func(any, any) { g.recall.changed(recordNews) },
		DeleteFunc: func(any) { g.recall.changed(recordDeletions) },
	}
	if _, err := g.poolCache.AddEventHandler(poolEvents); err != nil {
		return err
	}
	if err := g.incarnations.watch(); err != nil {
		return err
	}
	ctx = klog.NewContext(ctx, g.options.Log)
	var parts sync.WaitGroup
	parts.Go(func() { g.poolCache.RunWithContext(ctx) })
	parts.Go(func() { g.podCache.RunWithContext(ctx) })
	parts.Go(func() { g.incarnations.informer.RunWithContext(ctx) })
	parts.Go(func() { g.incarnations.compare(ctx) })
	parts.Go(func() { g.neighbours.run(ctx) })
	parts.Go(func() {
		every(ctx, func() {
			if g.keys.due() {
				_ = g.keys.refresh(ctx) // its result is the state
				g.probe(ctx)
			}
		})
	})
	parts.Go(func() { g.remember(ctx) })
	parts.Wait()
	return nil
}

// every does something at each tick until ctx ends.
func every(ctx context.Context, do func()) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for ctx.Err() == nil {
		do()
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// remember lets go of what an earlier process saw as soon as the API server has told everything, and keeps what is seen for the next.
func (g *Guard) remember(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-g.podCache.HasSyncedChecker().Done():
	}
	select {
	case <-ctx.Done():
		return
	case <-g.poolCache.HasSyncedChecker().Done():
	}
	there := map[types.UID]bool{}
	for _, pod := range listed[*metav1.PartialObjectMetadata](g.podCache) {
		there[pod.UID] = true
	}
	for _, uid := range g.recall.contradicted(there) {
		g.podGone(string(uid))
	}
	g.recall.changed(0)
	every(ctx, func() {
		if g.recall.isDue() {
			g.recall.keep(g.snapshot())
		}
	})
	if g.recall.isPending() {
		g.recall.keep(g.snapshot())
	}
}

// snapshot is what the watches hold now.
func (g *Guard) snapshot() snapshot {
	s := takeSnapshot(listed[*metav1.PartialObjectMetadata](g.podCache), listed[*unstructured.Unstructured](g.poolCache), g.options.Flow, g.options.StatefulSet)
	s.Leases = g.incarnations.of(s.Pods)
	s.Grants = g.submitters.granted.kept(g.options.Clock.Now())
	return s
}

func (g *Guard) podDeleted(object any) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	if pod, ok := object.(*metav1.PartialObjectMetadata); ok {
		g.recall.changed(recordDeletions)
		g.podGone(string(pod.UID))
	}
}

func (g *Guard) podGone(uid string) {
	g.incarnations.forget(uid)
	g.options.OnPodGone(uid)
}

// podReplaced notices a deletion and re-creation that the watch missed.
func (g *Guard) podReplaced(before, after any) {
	within := recordNews
	defer func() { g.recall.changed(within) }()
	was, ok := before.(*metav1.PartialObjectMetadata)
	is, alsoOK := after.(*metav1.PartialObjectMetadata)
	if ok && alsoOK && was.UID != is.UID {
		within = recordDeletions
		g.podGone(string(was.UID))
	}
}

// AuthenticateWorker implements transport.Authenticator.
func (g *Guard) AuthenticateWorker(ctx context.Context, token string) (delivery.Worker, error) {
	who, err := g.identify(ctx, g.workers, token)
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
	if pod.Annotations[v1alpha1.AnnotationLease] == v1alpha1.LeaseRequired {
		g.incarnations.require(who.podUID)
	}
	return found, pod.Labels[v1alpha1.LabelRevision], nil
}

// Patience with the API server at the start of a process, and where an earlier process knew the answer.
const (
	fillPatience = 2 * time.Second
	livePatience = time.Second
)

// podOf finds the pod under the name in a token; nil for none. A just created pod may be missing in the cache: then the API server is
// asked once.
func (g *Guard) podOf(ctx context.Context, who identity) (*metav1.PartialObjectMetadata, error) {
	var e evidence[*metav1.PartialObjectMetadata]
	e.filled = g.filled(ctx, g.podCache)
	e.watched, _ = cached[*metav1.PartialObjectMetadata](g.podCache, g.options.Namespace, who.podName)
	if e.watched != nil && string(e.watched.UID) == who.podUID {
		return e.watched, nil
	}
	e.lastSeen = g.recall.pod(who.podName, who.podUID)
	var err error
	e.answer, err = g.ask(ctx, e.lastSeen != nil && !e.filled, func(ctx context.Context) (err error) {
		e.live, err = g.clients.Metadata.Resource(pods).Namespace(g.options.Namespace).Get(ctx, who.podName, metav1.GetOptions{})
		return err
	})
	if e.answer == absent || e.answer == found && string(e.live.UID) != who.podUID {
		g.recall.forgetPod(who.podName)
	}
	pod, decided := weigh(e)
	if !decided {
		return nil, undecided("the API server did not answer about the pod: " + shortCause(err))
	}
	return pod, nil
}

// poolPulls checks that the pool names this flow, with one live look where the cache says otherwise: it may be a moment behind.
func (g *Guard) poolPulls(ctx context.Context, owner *metav1.OwnerReference) error {
	var e evidence[*unstructured.Unstructured]
	e.filled = g.filled(ctx, g.poolCache)
	e.watched, _ = cached[*unstructured.Unstructured](g.poolCache, g.options.Namespace, owner.Name)
	if e.watched != nil && classifyPool(e.watched, owner, g.options.Flow) == nil {
		return nil
	}
	e.lastSeen = g.recall.pool(owner.Name, owner.UID)
	var err error
	e.answer, err = g.ask(ctx, e.lastSeen != nil && !e.filled, func(ctx context.Context) (err error) {
		e.live, err = g.clients.Dynamic.Resource(pools).Namespace(g.options.Namespace).Get(ctx, owner.Name, metav1.GetOptions{})
		return err
	})
	if e.answer == absent || e.answer == found && classifyPool(e.live, owner, g.options.Flow) != nil {
		g.recall.forgetPool(owner.Name)
	}
	pool, decided := weigh(e)
	if !decided {
		return undecided("the API server did not answer about the pool: " + shortCause(err))
	}
	return verdict{refusal: classifyPool(pool, owner, g.options.Flow)}.err()
}

// answerOf is what the error of a Get says.
func answerOf(err error) answer {
	switch {
	case err == nil:
		return found
	case apierrors.IsNotFound(err):
		return absent
	}
	return silent
}

// filled waits, at the start of a process, for a cache that is being filled, so that a crowd that comes back after a restart is not a crowd
// of questions.
func (g *Guard) filled(ctx context.Context, informer cache.SharedIndexInformer) bool {
	if informer.HasSynced() {
		return true
	}
	select {
	case <-informer.HasSyncedChecker().Done():
	case <-g.enough():
	case <-ctx.Done():
	}
	return informer.HasSynced()
}

// ask gets an object from the API server. Where an earlier process knew it, a moment of silence is enough.
func (g *Guard) ask(ctx context.Context, needless bool, get func(context.Context) error) (answer, error) {
	if needless {
		if last := g.silence.Load(); last != nil && g.options.Clock.Since(*last) < awayFor {
			return silent, errSilent
		}
		limited, cancel := context.WithTimeout(ctx, livePatience)
		defer cancel()
		ctx = limited
	}
	err := get(ctx)
	heard := answerOf(err)
	if heard == silent {
		now := g.options.Clock.Now()
		g.silence.Store(&now)
	}
	return heard, err
}

// errSilent says that the API server did not answer a moment ago.
var errSilent = errors.New("no answer a moment ago")

// AuthenticateSubmitter implements transport.Authenticator. Any user whose token has our audience may be one.
func (g *Guard) AuthenticateSubmitter(ctx context.Context, token, verb string) (transport.Submitter, error) {
	who, err := g.identify(ctx, g.submitters, token)
	if err != nil {
		return transport.Submitter{}, err
	}
	if g.isMember(ctx, who, verb) {
		return transport.Submitter{Subject: who.user.Username, Member: true}, nil
	}
	if err := g.submitters.allowed(ctx, token, verb, who); err != nil {
		return transport.Submitter{}, err
	}
	return transport.Submitter{Subject: who.user.Username}, nil
}

// isMember says whether a token is that of another producer of this flow, which may do what the app in its pod may.
func (g *Guard) isMember(ctx context.Context, who identity, verb string) bool {
	if g.options.StatefulSet == "" || who.namespace != g.options.Namespace || who.podUID == "" || verb != transport.VerbCreate && verb != transport.VerbGet {
		return false
	}
	pod, err := g.podOf(ctx, who)
	return err == nil && classifyMember(pod, who, g.options.StatefulSet)
}

// reasonOf returns the machine-readable reason of an API error, "" for any other.
func reasonOf(err error) string { return string(apierrors.ReasonForError(err)) }
