//go:build integration

package operator

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/workpulling/workpulling/test/integration/environment"
)

// right is one verb on one resource, perhaps of one name.
type right struct{ verb, group, resource, name string }

func (r right) String() string {
	return strings.TrimSpace(r.verb + " " + strings.TrimPrefix(r.group+"/"+r.resource, "/") + " " + r.name)
}

// ledger holds the rights that the operator's requests needed.
type ledger struct {
	mu     sync.Mutex
	parser request.RequestInfoFactory
	used   map[right]bool
}

func newLedger() *ledger {
	return &ledger{used: map[right]bool{}, parser: request.RequestInfoFactory{
		APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
	}}
}

func (l *ledger) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if info, err := l.parser.NewRequestInfo(r); err == nil && info.IsResourceRequest {
			resource := info.Resource
			if info.Subresource != "" {
				resource += "/" + info.Subresource
			}
			l.mu.Lock()
			l.used[right{info.Verb, info.APIGroup, resource, info.Name}] = true
			l.mu.Unlock()
		}
		return next.RoundTrip(r)
	})
}

// uses says whether some request needed a right; one without a name covers all names. A watch stands for a list too: an API server from
// before lists came by watches is asked for one first.
func (l *ledger) uses(r right) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.verb == "list" && l.used[right{"watch", r.group, r.resource, r.name}] {
		return true
	}
	for used := range l.used {
		if r.name == "" {
			used.name = ""
		}
		if used == r {
			return true
		}
	}
	return false
}

// elsewhere are the rights that no request of this suite shows, each with what needs it.
var elsewhere = map[string]string{
	"create authorization.k8s.io/localsubjectaccessreviews":  "the Role of a producer grants it",
	"bind rbac.authorization.k8s.io/clusterroles":            "asked for by the API server, when a ClusterRoleBinding is made",
	"hold workpulling.dev/workerpools/leases":                "the Role of workers grants it; asked for by the admission policy",
	"hold-any workpulling.dev/workerpools/leases":            "asked for by the admission policy",
	"update workpulling.dev/workerpools/finalizers":          "asked for by the API server with OwnerReferencesPermissionEnforcement",
	"update workpulling.dev/workpullingflows/finalizers":     "asked for by the API server with OwnerReferencesPermissionEnforcement",
	"create authorization.k8s.io/subjectaccessreviews":       "who scrapes the metrics, which are off here",
	"get coordination.k8s.io/leases workpulling-operator":    "the election of a leader, which is off here",
	"update coordination.k8s.io/leases workpulling-operator": "the election of a leader, which is off here",
	"create events":                                       "the election of a leader, which is off here",
	"patch events":                                        "the election of a leader, which is off here",
	"get coordination.k8s.io/leases":                      "the Roles of producers and workers grant it",
	"get rbac.authorization.k8s.io/rolebindings":          "one that lost our label is read past the cache",
	"get rbac.authorization.k8s.io/clusterrolebindings":   "one that lost our label is read past the cache",
	"get serviceaccounts":                                 "one that lost our label is read past the cache",
	"get apps/statefulsets":                               "one that lost our label is read past the cache",
	"get configmaps":                                      "one that lost our label is read past the cache",
	"get policy/poddisruptionbudgets":                     "one that lost our label is read past the cache",
	"get networking.k8s.io/networkpolicies":               "one that lost our label is read past the cache",
	"patch services":                                      "drift is repaired",
	"patch serviceaccounts":                               "drift is repaired",
	"patch policy/poddisruptionbudgets":                   "drift is repaired",
	"patch rbac.authorization.k8s.io/clusterrolebindings": "drift is repaired",
	"patch coordination.k8s.io/leases":                    "drift of labels is repaired, and the Roles of producers and workers grant it",
	"get secrets workpulling-tls":                         "one that exists and is not in the cache yet",
	"get persistentvolumeclaims":                          "one that a person restored has not our label",
	"get workpulling.dev/workerpools":                     "the Role of a producer grants it",
	"get storage.k8s.io/csidrivers":                       "asked for where a StorageClass may be that of a CSI driver; none here is",
	"patch secrets workpulling-operator-ca":               "a rotation of the authority, or a damaged Secret; the tests of internal/certs do both",
	"patch events.k8s.io/events":                          "an Event that is repeated",
}

// After all specs, what the operator may do has been done, or is argued for.
var _ = AfterSuite(func() {
	config, _ := GinkgoConfiguration()
	if len(config.FocusStrings)+len(config.SkipStrings)+len(config.FocusFiles)+len(config.SkipFiles) > 0 || config.LabelFilter != "" || used == nil {
		return
	}
	var unused []string
	for _, r := range grantedRights() {
		if !used.uses(r) && elsewhere[r.String()] == "" {
			unused = append(unused, r.String())
		}
	}
	slices.Sort(unused)
	Expect(unused).To(BeEmpty(), "rights that nothing uses; drop the marker, or say in this file what needs it")
})

func grantedRights() (rights []right) {
	GinkgoHelper()
	root, err := environment.RepositoryRoot()
	Expect(err).NotTo(HaveOccurred())
	for _, file := range []string{"role.yaml", "namespaced_role.yaml"} {
		objects, err := environment.ReadManifest(filepath.Join(root, "config", "rbac", file))
		Expect(err).NotTo(HaveOccurred())
		var role rbacv1.ClusterRole
		Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(objects[0].Object, &role)).To(Succeed())
		for _, rule := range role.Rules {
			rights = append(rights, rightsOf(rule)...)
		}
	}
	return rights
}

func rightsOf(rule rbacv1.PolicyRule) (rights []right) {
	names := rule.ResourceNames
	if len(names) == 0 || slices.Contains(rule.Verbs, "bind") {
		names = []string{""}
	}
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				for _, name := range names {
					rights = append(rights, right{verb, group, resource, name})
				}
			}
		}
	}
	return rights
}
