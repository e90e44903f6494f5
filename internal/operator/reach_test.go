package operator

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/certs"
)

// slowServer is as much of an API server as an operator needs to start. It refuses the next requests like one that is not ready, and some
// more when the authority has been made.
type slowServer struct {
	refuses, refused atomic.Int64
	made             sync.Once
}

func (s *slowServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.refuses.Add(-1) >= 0 {
		s.refused.Add(1)
		http.Error(w, "starting", http.StatusServiceUnavailable)
		return
	}
	if r.Method == http.MethodPost {
		s.made.Do(func() { s.refuses.Store(2) })
	}
	w.Header().Set("Content-Type", "application/json")
	var answer any
	switch r.URL.Path {
	case "/api":
		answer = metav1.APIVersions{Versions: []string{"v1"}}
	case "/apis":
		var groups metav1.APIGroupList
		for _, served := range servedKinds {
			if served.version.Group != "" {
				groups.Groups = append(groups.Groups, served.group())
			}
		}
		answer = groups
	default:
		if answer = discovered(r.URL.Path); answer == nil {
			answer = secret(w, r)
		}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// servedKinds are those that an operator looks up.
var servedKinds = []servedGroup{
	{corev1.SchemeGroupVersion, []string{"Pod", "PersistentVolumeClaim", "Secret", "ConfigMap", "Service", "ServiceAccount"}},
	{appsv1.SchemeGroupVersion, []string{"StatefulSet"}},
	{coordinationv1.SchemeGroupVersion, []string{"Lease"}},
	{networkingv1.SchemeGroupVersion, []string{"NetworkPolicy"}},
	{policyv1.SchemeGroupVersion, []string{"PodDisruptionBudget"}},
	{rbacv1.SchemeGroupVersion, []string{"Role", "RoleBinding", "ClusterRoleBinding"}},
	{v1alpha1.GroupVersion, []string{v1alpha1.KindWorkPullingFlow, v1alpha1.KindWorkerPool}},
}

type servedGroup struct {
	version schema.GroupVersion
	kinds   []string
}

func (s servedGroup) group() metav1.APIGroup {
	version := metav1.GroupVersionForDiscovery{GroupVersion: s.version.String(), Version: s.version.Version}
	return metav1.APIGroup{Name: s.version.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version}
}

// discovered is what discovery says at a path, nil where that is not about discovery.
func discovered(path string) any {
	for _, served := range servedKinds {
		list := metav1.APIResourceList{GroupVersion: served.version.String()}
		for _, kind := range served.kinds {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: strings.ToLower(kind) + "s", Kind: kind, Namespaced: kind != "ClusterRoleBinding"})
		}
		switch path {
		case "/apis/" + served.version.Group:
			return served.group()
		case "/api/" + served.version.String(), "/apis/" + served.version.String():
			return list
		}
	}
	return nil
}

// secret takes the authority's Secret, of which there is none.
func secret(w http.ResponseWriter, r *http.Request) any {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusNotFound)
		return metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
	}
	w.WriteHeader(http.StatusCreated)
	return map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "ca", "resourceVersion": "1"}}
}

func TestAnAPIServerThatIsSlowToStartIsWaitedFor(t *testing.T) {
	slow := &slowServer{}
	slow.refuses.Store(3)
	server := httptest.NewServer(slow)
	defer server.Close()
	options := Defaults()
	options.Namespace, options.RuntimeImage, options.LeaderElection = "workpulling-system", "workpulling/workpulling:v1", false
	options.MetricsAddress, options.ProbeAddress = "0", "0"
	config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	o, err := New(t.Context(), config, options, Parts{Metrics: prometheus.NewRegistry()}, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	if o.Authority.Expires().IsZero() || slow.refused.Load() != 5 {
		t.Errorf("the authority expires %v, after %d refused requests", o.Authority.Expires(), slow.refused.Load())
	}
}

func TestReach(t *testing.T) {
	away := errors.New("TLS handshake timeout")
	cases := map[string]struct {
		answers []error // the last one stays
		tries   int     // at most; 0 is not looked at
		longest time.Duration
		want    error
	}{
		"at once":       {answers: []error{nil}, tries: 1},
		"in the end":    {answers: []error{away, away, away, nil}, tries: 4, longest: 5 * time.Second},
		"never":         {answers: []error{away}, longest: startPatience, want: away},
		"damaged":       {answers: []error{certs.ErrDamaged}, tries: 1, want: certs.ErrDamaged},
		"later damaged": {answers: []error{away, certs.ErrDamaged}, tries: 2, longest: time.Second, want: certs.ErrDamaged},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, tries, logged := time.Now(), 0, 0
				log := funcr.New(func(_, args string) {
					logged++
					if !strings.Contains(args, away.Error()) {
						t.Errorf("logged %s", args)
					}
				}, funcr.Options{})
				err := reach(t.Context(), log, func(context.Context) error {
					tries++
					return c.answers[min(tries, len(c.answers))-1]
				})
				if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
					t.Errorf("error %v, want %v", err, c.want)
				}
				if took := time.Since(began); took > c.longest {
					t.Errorf("it took %v, want at most %v", took, c.longest)
				}
				if c.tries != 0 && tries != c.tries || tries > 40 {
					t.Errorf("%d tries, want %d", tries, c.tries)
				}
				if logged > 1 || (logged == 1) != errors.Is(c.answers[0], away) {
					t.Errorf("%d lines were logged", logged)
				}
			})
		})
	}
}

func TestReachEndsWithTheProcess(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	err := reach(ctx, logr.Discard(), func(context.Context) error {
		stop()
		return errors.New("away")
	})
	if err == nil {
		t.Error("it went on without an API server")
	}
}
