package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/test/builders"
	"github.com/workpulling/workpulling/test/integration/environment"
	"github.com/workpulling/workpulling/test/prober"
)

// Names of objects.
const (
	secretName = "database"
	submitter  = "submitter"
	volumeName = "prober"
	mountPath  = "/prober"
)

// appProgram is the app of a worker, on the volume that holds its ledger.
const appProgram = mountPath + "/app"

// usuallyTakes is how long most jobs take, so that some are running at any moment.
const usuallyTakes = 100 * time.Millisecond

// objects makes the volume, the rights of the submitter, the flows and the pools.
func (b *Bed) objects(ctx context.Context) error {
	b.flows = []*flow{{name: "parcels"}, {name: "invoices", shared: true}}
	volume := filepath.Join(b.Dir, "volume")
	if err := b.fillVolume(volume); err != nil {
		return err
	}
	all := []client.Object{b.volume(volume), b.claim()}
	all = append(all, b.rights()...)
	for _, f := range b.flows {
		all = append(all, b.flow(f), b.pool(f))
	}
	for _, object := range all {
		if err := b.client.Create(ctx, object); err != nil {
			return fmt.Errorf("making %T %s: %w", object, object.GetName(), err)
		}
	}
	b.undo = append(b.undo, func(ctx context.Context) error {
		return errors.Join(b.deleteFlows(ctx), client.IgnoreNotFound(b.client.Delete(ctx, b.volume(volume))))
	})
	return nil
}

// deleteFlows lets flows go with whatever they hold: the judgement is made.
func (b *Bed) deleteFlows(ctx context.Context) error {
	var errs []error
	for _, f := range b.flows {
		object := builders.MakeFlow(f.name, b.namespace).Obj()
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"deletionPolicy":"Discard"}}`))
		errs = append(errs, client.IgnoreNotFound(b.client.Patch(ctx, object, patch)))
	}
	return errors.Join(errs...)
}

// fillVolume makes the directory that workers see: the app, which every user may run, and a place for ledgers, where every user may write.
func (b *Bed) fillVolume(dir string) error {
	ledgers := filepath.Join(b.Dir, ledgersDir)
	if err := os.MkdirAll(ledgers, 0o755); err != nil {
		return fmt.Errorf("making the volume: %w", err)
	}
	if err := os.Chmod(ledgers, 0o777); err != nil { //nolint:gosec // pods of any user write there
		return fmt.Errorf("opening the volume: %w", err)
	}
	from, err := os.Open(b.App)
	if err != nil {
		return fmt.Errorf("opening the app: %w", err)
	}
	defer from.Close()
	to, err := os.OpenFile(filepath.Join(dir, "app"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755) //nolint:gosec // pods of any user run it
	if err != nil {
		return fmt.Errorf("putting the app on the volume: %w", err)
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// volume is the run's directory for the pods of every node. It is nobody's to delete.
func (b *Bed) volume(dir string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: b.namespace},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}},
			ClaimRef:                      &corev1.ObjectReference{Namespace: b.namespace, Name: volumeName},
		},
	}
}

func (b *Bed) claim() *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: volumeName},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, StorageClassName: ptr.To(""), VolumeName: b.namespace,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

// rights are a submitter's.
func (b *Bed) rights() []client.Object {
	meta := metav1.ObjectMeta{Namespace: b.namespace, Name: submitter}
	return []client.Object{
		&corev1.ServiceAccount{ObjectMeta: meta},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"workpullingflows/jobs"}, Verbs: []string{"create", "get"},
		}}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: submitter},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: b.namespace, Name: submitter}},
		},
	}
}

// authenticate gives the submitters a token that outlives any run.
func (b *Bed) authenticate(ctx context.Context) error {
	token, err := environment.RequestToken(ctx, b.client, b.namespace, submitter, authenticationv1.TokenRequestSpec{
		Audiences: []string{runtimeconfig.TokenAudience}, ExpirationSeconds: ptr.To[int64](24 * 3600),
	})
	if err == nil {
		b.submits.Store(token)
	}
	return err
}

func (b *Bed) bearer() string { return b.submits.Load().(string) }

func (b *Bed) flow(f *flow) client.Object {
	builder := builders.MakeFlow(f.name, b.namespace).Backoff(50, 1000).MaxAttempts(12)
	if f.shared {
		builder.PostgreSQL(secretName, producers)
	}
	object := builder.Obj()
	object.Spec.DeduplicationWindowSeconds = int32(prober.DeduplicationWindow / time.Second)
	return object
}

func (b *Bed) pool(f *flow) client.Object {
	pool := builders.MakePool(f.name, b.namespace, f.name).Replicas(workers).Concurrency(8).
		Handler(prober.AppPort, "/jobs", int32(prober.HandlerTimeout/time.Second)).Obj()
	pool.Spec.Drain.TimeoutSeconds = 60
	pool.Spec.Template = corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		AutomountServiceAccountToken: ptr.To(false),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](65532), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			// The image is but a root for the program, which comes with the volume.
			Name: "app", Image: b.images.AppRepository + ":" + b.images.Tag, Command: []string{appProgram},
			Env: []corev1.EnvVar{
				{Name: "POD_UID", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"}}},
				{Name: prober.EnvApp, Value: ":" + strconv.Itoa(prober.AppPort)},
				{Name: prober.EnvLedger, Value: mountPath + "/ledgers/$(POD_UID)" + prober.LedgerSuffix},
				{Name: prober.EnvSeed, Value: strconv.FormatUint(b.Seed, 10)},
				{Name: prober.EnvTakes, Value: usuallyTakes.String()},
			},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
			}},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
			VolumeMounts: []corev1.VolumeMount{{Name: volumeName, MountPath: mountPath}},
		}},
		Volumes: []corev1.Volume{{
			Name: volumeName, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: volumeName}},
		}},
	}}
	return pool
}
