package fencing

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

// restorable is as much of an API server as an informer of pods sees, with a store that can be put back: as the real one does, it sends a
// watch only what is newer than the version that the watch begins at, and knows nothing of a version that it has not come to yet.
type restorable struct {
	mu       sync.Mutex
	version  int
	pods     map[string]int // name to the version at which it was made
	watching map[chan string]int
}

// newRestorable has one pod, "kept", of its first version.
func newRestorable(t *testing.T) (*restorable, Clients) {
	t.Helper()
	api := &restorable{pods: map[string]int{}, watching: map[chan string]int{}}
	api.make("kept")
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	clients, err := NewClients(&rest.Config{Host: server.URL}, "shop")
	if err != nil {
		t.Fatal(err)
	}
	return api, clients
}

func (a *restorable) make(pod string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	a.pods[pod] = a.version
	for w, from := range a.watching {
		if a.version > from {
			w <- fmt.Sprintf(`{"type": "ADDED", "object": %s}`, a.object(pod))
		}
	}
}

// restore puts the store back to a version, which ends every watch; there has to be one.
func (a *restorable) restore(t *testing.T, version int) {
	t.Helper()
	transporttest.Eventually(t, "there is a watch", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.watching) > 0
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version = version
	for name, at := range a.pods {
		if at > version {
			delete(a.pods, name)
		}
	}
	for w := range a.watching {
		close(w)
		delete(a.watching, w)
	}
}

func (a *restorable) object(pod string) string {
	return fmt.Sprintf(`{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
		"metadata": {"name": %q, "namespace": "shop", "uid": %q, "resourceVersion": "%d"}, "status": {"podIP": "10.0.0.%d"}}`,
		pod, "uid of "+pod, a.pods[pod], a.pods[pod])
}

func (a *restorable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	query := r.URL.Query()
	switch {
	case !strings.HasSuffix(r.URL.Path, "/pods") && query.Has("watch"):
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case !strings.HasSuffix(r.URL.Path, "/pods"):
		fmt.Fprint(w, `{"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": []}`)
	case query.Has("sendInitialEvents"):
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity})
	case query.Has("watch"):
		a.watch(w, r, query.Get("resourceVersion"))
	default:
		a.list(w, query.Get("resourceVersion"))
	}
}

func (a *restorable) list(w http.ResponseWriter, version string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if from, _ := strconv.Atoi(version); from > a.version {
		w.WriteHeader(http.StatusGatewayTimeout)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			Status: metav1.StatusFailure, Reason: metav1.StatusReasonTimeout, Code: http.StatusGatewayTimeout,
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}},
		})
		return
	}
	items := []string{}
	for name := range a.pods {
		items = append(items, a.object(name))
	}
	fmt.Fprintf(w, `{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {"resourceVersion": "%d"}, "items": [%s]}`,
		a.version, strings.Join(items, ","))
}

func (a *restorable) watch(w http.ResponseWriter, r *http.Request, version string) {
	from, _ := strconv.Atoi(version)
	events := make(chan string, 100)
	a.mu.Lock()
	a.watching[events] = from
	for name, at := range a.pods {
		if at > from {
			events <- fmt.Sprintf(`{"type": "ADDED", "object": %s}`, a.object(name))
		}
	}
	a.mu.Unlock()
	w.(http.Flusher).Flush()
	for {
		select {
		case event, open := <-events:
			if !open {
				return
			}
			fmt.Fprintln(w, event)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			a.mu.Lock()
			delete(a.watching, events)
			a.mu.Unlock()
			return
		}
	}
}

// A pod that a restored API server has forgotten is gone: nobody will ever tell of its deletion, and its kubelet may not know of it either.
func TestAPodThatARestoredServerForgotIsGone(t *testing.T) {
	api, clients := newRestorable(t)
	gone := make(chan string, 10)
	g := New(Options{
		Namespace: "shop", Flow: "orders", Audience: "workpulling.dev", Log: logr.Discard(), OnPodGone: func(uid string) { gone <- uid },
	}, clients)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = g.Run(ctx) })
	defer running.Wait()
	defer stop()
	knows := func(pod string) func() bool {
		return func() bool {
			found, ok := cached[*metav1.PartialObjectMetadata](g.podCache, "shop", pod)
			return ok && found.UID == types.UID("uid of "+pod)
		}
	}
	transporttest.Eventually(t, "the pod of before is known", knows("kept"))
	for n := range 20 {
		api.make(fmt.Sprint("later ", n))
	}
	transporttest.Eventually(t, "the newest pod is known", knows("later 19"))
	began := time.Now()
	api.restore(t, 1)
	forgotten := map[string]bool{}
	for len(forgotten) < 20 {
		select {
		case uid := <-gone:
			forgotten[uid] = true
		case <-time.After(transporttest.Patience):
			t.Fatalf("%d of 20 forgotten pods are gone", len(forgotten))
		}
	}
	t.Logf("all are gone %s after the restoration", time.Since(began).Round(time.Millisecond))
	if forgotten["uid of kept"] || !knows("kept")() {
		t.Error("the pod that the server knows is gone, too")
	}
	// What is made under versions that were given out before is seen.
	api.make("new")
	transporttest.Eventually(t, "a pod made after the restoration is known", knows("new"))
}

// Whose an address is would not be told for hours, until the API server has come to the version of before: a forgotten pod would let the next
// owner of its address in, and after a while nobody would be let in.
func TestAddressesThatARestoredServerForgotAreNobodys(t *testing.T) {
	api, clients := newRestorable(t)
	census, err := newCensus(t.Context(), clients.Dynamic, "shop", clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	defer census.close()
	at := func(version int, pod string) func() bool {
		return func() bool {
			found := census.at(netip.AddrFrom4([4]byte{10, 0, 0, byte(version)}))
			return pod == "" && len(found) == 0 || len(found) == 1 && found[0].Name == pod
		}
	}
	for n := range 20 {
		api.make(fmt.Sprint("later ", n))
	}
	transporttest.Eventually(t, "the newest pod is known", at(21, "later 19"))
	api.restore(t, 1)
	transporttest.Eventually(t, "nobody has the address of a forgotten pod", at(21, ""))
	api.make("new")
	transporttest.Eventually(t, "a pod made after the restoration is known", at(2, "new"))
	if !at(1, "kept")() {
		t.Error("the pod that the server knows is gone, too")
	}
}
