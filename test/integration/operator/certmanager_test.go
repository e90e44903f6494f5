//go:build integration

package operator

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"path/filepath"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/certs"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/test/builders"
	"github.com/workpulling/workpulling/test/certmanager"
	"github.com/workpulling/workpulling/test/integration/environment"
)

// requestKind is as much of cert-manager's CustomResourceDefinition as a request needs. The true one checks more.
func requestKind() *unstructured.Unstructured {
	GinkgoHelper()
	anything := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}
	crd := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta: metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        "certificaterequests.cert-manager.io",
			Annotations: map[string]string{"api-approved.kubernetes.io": "unapproved, a stand-in of a test"},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: certmanager.Kind.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Kind: certmanager.Kind.Kind, ListKind: "CertificateRequestList", Plural: "certificaterequests", Singular: "certificaterequest",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: certmanager.Kind.Version, Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": anything, "status": anything},
				}},
			}},
		},
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	Expect(err).NotTo(HaveOccurred())
	delete(object, "status")
	return &unstructured.Unstructured{Object: object}
}

// installCertManager makes the kind, and something that answers requests of it until the spec ends. change runs between two answers.
func installCertManager(ctx SpecContext) (change func(func(*certmanager.Manager))) {
	GinkgoHelper()
	crd := requestKind()
	Expect(env.Client.Create(ctx, crd)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(env.Client.Delete(ctx, crd)).To(Succeed())
		Eventually(exists(ctx, crd)).Should(BeFalse())
	})
	var mu sync.Mutex
	manager := &certmanager.Manager{Client: env.Client, Clock: clock.RealClock{}, Issuers: map[string]*certmanager.CA{}}
	Eventually(func() error { return manager.Answer(ctx) }).Should(Succeed())
	working, stop := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-working.Done():
				return
			case <-ticker.C:
				mu.Lock()
				_ = manager.Answer(working) // the next one does what a conflict left
				mu.Unlock()
			}
		}
	})
	DeferCleanup(func() {
		stop()
		group.Wait()
	})
	return func(do func(*certmanager.Manager)) {
		mu.Lock()
		defer mu.Unlock()
		do(manager)
	}
}

// allowRequests gives the operator the role that goes with an issuer.
func allowRequests(ctx SpecContext) {
	GinkgoHelper()
	root, err := environment.RepositoryRoot()
	Expect(err).NotTo(HaveOccurred())
	role, err := environment.ReadManifest(filepath.Join(root, "config", "rbac", "certificate_requests_role.yaml"))
	Expect(err).NotTo(HaveOccurred())
	role[0].SetName(home + "-certificate-requests")
	create(ctx, role[0])
	create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: named("", home+"-certificate-requests"),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role[0].GetName()},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: home, Name: "workpulling-operator"}},
	})
}

// useIssuer runs an operator with an issuer, for the length of the spec.
func useIssuer() {
	GinkgoHelper()
	stopOperator()
	options := operatorOptions()
	options.CertificateIssuer = certs.IssuerRef{Group: certmanager.Kind.Group, Kind: "ClusterIssuer", Name: "corporate"}
	stop := startOperator(operatorConfig, options)
	stopOperator = stop
	DeferCleanup(func() {
		stopOperator()
		stopOperator = startOperator(operatorConfig, operatorOptions())
	})
}

// told is the message of a condition.
func told(conditions []metav1.Condition, kind string) string {
	if c := meta.FindStatusCondition(conditions, kind); c != nil {
		return c.Message
	}
	return ""
}

// served is the certificate of an entry and the bundle beside it.
func served(ctx context.Context, g Gomega, namespace, entry string) (*x509.Certificate, []byte) {
	GinkgoHelper()
	var secret corev1.Secret
	g.Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: runtimeconfig.TLSSecretName}, &secret)).To(Succeed())
	var bundle corev1.ConfigMap
	g.Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: runtimeconfig.CAConfigMapName}, &bundle)).To(Succeed())
	block, _ := pem.Decode(secret.Data[entry+runtimeconfig.TLSCertSuffix])
	g.Expect(block).NotTo(BeNil())
	cert, err := x509.ParseCertificate(block.Bytes)
	g.Expect(err).NotTo(HaveOccurred())
	return cert, []byte(bundle.Data[corev1.ServiceAccountRootCAKey])
}

// cert-manager is stood in for: see test/certmanager.
var _ = Describe("An issuer of cert-manager", Serial, func() {
	It("is waited for, gives what flows and pools serve with, and hands over to the operator's own authority", func(ctx SpecContext) {
		allowRequests(ctx)
		useIssuer()
		namespace := newNamespace(ctx)
		n := newNode(namespace)
		flow := builders.MakeFlow(flowName, namespace).Memory().DeletionPolicy(v1alpha1.DeletionDiscard).Obj()
		Expect(env.Client.Create(ctx, flow)).To(Succeed())
		pool := builders.MakePool(poolName, namespace, flowName).Obj()
		pool.Spec.Replicas, pool.Spec.Drain.TimeoutSeconds = ptr.To[int32](1), 5
		Expect(env.Client.Create(ctx, pool)).To(Succeed())
		both := func(text string) func(Gomega) {
			return func(g Gomega) {
				f, p := getFlow(ctx, namespace, flowName), getPool(ctx, namespace, poolName)
				g.Expect(condition(f.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("False/CertificatePending"))
				g.Expect(told(f.Status.Conditions, v1alpha1.ConditionReady)).To(ContainSubstring(text))
				g.Expect(condition(p.Status.Conditions, v1alpha1.ConditionReady)).To(Equal("False/CertificatePending"))
				g.Expect(told(p.Status.Conditions, v1alpha1.ConditionReady)).To(ContainSubstring(text))
			}
		}
		By("saying that there is no cert-manager")
		Eventually(both("cert-manager is not installed")).Should(Succeed())
		Eventually(func() []string {
			var list eventsv1.EventList
			Expect(env.Client.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
			var about []string
			for _, e := range list.Items {
				if e.Reason == "CertificateTrouble" {
					about = append(about, e.Regarding.Kind)
				}
			}
			return about
		}).Should(ConsistOf(v1alpha1.KindWorkPullingFlow, v1alpha1.KindWorkerPool))
		Expect(exists(ctx, &appsv1.StatefulSet{ObjectMeta: named(namespace, "orders-producer")})()).To(BeFalse())
		Expect(workers(ctx, namespace, poolName)).To(BeEmpty())

		By("saying that there is no such issuer")
		change := installCertManager(ctx)
		Eventually(both(`Referenced "ClusterIssuer" not found`)).Should(Succeed())

		By("starting once the issuer is there")
		issuer, err := certmanager.NewCA("corporate", time.Now())
		Expect(err).NotTo(HaveOccurred())
		change(func(m *certmanager.Manager) { m.Issuers["corporate"] = issuer })
		Eventually(exists(ctx, &appsv1.StatefulSet{ObjectMeta: named(namespace, "orders-producer")})).Should(BeTrue())
		newProducer(ctx, namespace, flowName)
		Eventually(flowCondition(ctx, namespace, flowName, v1alpha1.ConditionReady)).Should(Equal("True/Serving"))
		Eventually(poolCondition(ctx, namespace, poolName, v1alpha1.ConditionReady)).Should(Equal("True/WorkersReady"))
		for entry, host := range map[string]string{
			runtimeconfig.ProducerName(flowName): runtimeconfig.ProducerHost(flowName, namespace),
			runtimeconfig.WorkerName(poolName):   runtimeconfig.WorkerHost(poolName, namespace),
		} {
			cert, bundle := served(ctx, Default, namespace, entry)
			Expect(cert.CheckSignatureFrom(issuer.Cert())).To(Succeed())
			Expect(cert.VerifyHostname(host)).To(Succeed())
			Expect(string(bundle)).To(ContainSubstring(string(issuer.PEM())))
		}
		before := atRest(namespace)
		Consistently(func() int { return len(writes.in(namespace)) }).WithTimeout(3 * second).Should(Equal(len(before)))

		By("asking the workers, whom the operator believes by that issuer")
		w := n.worker(workers(ctx, namespace, poolName)[0])
		scale(ctx, namespace, 0)
		Eventually(func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.cordoned || w.draining
		}).Should(BeTrue())

		By("going back to the operator's own authority, at once, while both are trusted")
		stopOperator()
		stopOperator = startOperator(operatorConfig, operatorOptions())
		Eventually(func(g Gomega) {
			cert, bundle := served(ctx, g, namespace, runtimeconfig.ProducerName(flowName))
			g.Expect(cert.CheckSignatureFrom(issuer.Cert())).NotTo(Succeed())
			g.Expect(string(bundle)).To(ContainSubstring(string(issuer.PEM())))
		}).Should(Succeed())
		Eventually(flowCondition(ctx, namespace, flowName, v1alpha1.ConditionReady)).Should(Equal("True/Serving"))

		By("taking the request along when the flow goes")
		request := &unstructured.Unstructured{}
		request.SetGroupVersionKind(certmanager.Kind)
		request.SetNamespace(namespace)
		request.SetName(runtimeconfig.ProducerName(flowName))
		Expect(exists(ctx, request)()).To(BeTrue())
		Expect(env.Client.Delete(ctx, flow)).To(Succeed())
		Eventually(exists(ctx, request)).Should(BeFalse())
	})
})
