package flow

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/controllers/podbuilder"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// AnnotationVolume, on a flow, remembers the claim and the volume that its jobs are on, as "<claim UID>/<volume name>". Removing it
// tells the operator to go on with whatever volume there is.
const AnnotationVolume = "workpulling.dev/volume"

const (
	annotationDefaultClass = "storageclass.kubernetes.io/is-default-class"
	inTree                 = "kubernetes.io/"
)

func claimName(flow *v1alpha1.WorkPullingFlow) string {
	return runtimeconfig.VolumeData + "-" + runtimeconfig.ProducerName(flow.Name) + "-0"
}

// storage is the class of a volume that is still to be made.
type storage struct {
	// problem says, for a person, why no volume can be made.
	problem     string
	provisioner string
	// csi says that the provisioner is a CSI driver of this cluster.
	csi bool
}

// accessMode is ReadWriteOncePod where that works, for it fences a second pod; only CSI drivers know it.
func (s storage) accessMode() corev1.PersistentVolumeAccessMode {
	if s.csi && !strings.HasPrefix(s.provisioner, inTree) {
		return corev1.ReadWriteOncePod
	}
	return corev1.ReadWriteOnce
}

func storageOf(flow *v1alpha1.WorkPullingFlow, classes []storagev1.StorageClass) storage {
	var wanted *string
	if local := flow.Spec.Queue.Local; local != nil {
		wanted = local.StorageClassName
	}
	if wanted != nil && *wanted == "" {
		return storage{}
	}
	for _, class := range classes {
		if wanted != nil && class.Name == *wanted || wanted == nil && class.Annotations[annotationDefaultClass] == "true" {
			return storage{provisioner: class.Provisioner}
		}
	}
	if wanted == nil {
		return storage{problem: "the cluster has no default StorageClass; mark one as default, or make the flow anew with spec.queue.local.storageClassName"}
	}
	return storage{problem: fmt.Sprintf("there is no StorageClass %q; create it, or make the flow anew with another spec.queue.local.storageClassName", *wanted)}
}

// volumeState is how the volume of a Local queue is.
type volumeState struct {
	// record is the value that AnnotationVolume should have.
	record string
	// missing says, for a person, that the volume with the flow's jobs is not the one there is.
	missing string
	// hold says that no producer may start, because it would start on another volume.
	hold bool
}

// volumeOf compares the claim with the one that the flow's jobs are on.
func volumeOf(flow *v1alpha1.WorkPullingFlow, claim *corev1.PersistentVolumeClaim) volumeState {
	recorded := flow.Annotations[AnnotationVolume]
	uid, volume, _ := strings.Cut(recorded, "/")
	goOn := fmt.Sprintf("restore it, or give its jobs up with: kubectl annotate -n %s wpf %s %s-", flow.Namespace, flow.Name, AnnotationVolume)
	switch {
	case claim == nil && recorded == "":
		return volumeState{}
	case claim == nil:
		return volumeState{record: recorded, hold: true, missing: fmt.Sprintf(
			"PersistentVolumeClaim %s with the flow's jobs (volume %s) was deleted; %s", claimName(flow), volume, goOn)}
	case recorded != "" && string(claim.UID) != uid && claim.Spec.VolumeName != volume:
		return volumeState{record: recorded, hold: true, missing: fmt.Sprintf(
			"PersistentVolumeClaim %s is a new one; the flow's jobs are on volume %s; %s", claim.Name, volume, goOn)}
	case claim.DeletionTimestamp != nil:
		return volumeState{record: recorded, missing: fmt.Sprintf(
			"PersistentVolumeClaim %s is being deleted and goes when the producer's pod stops; do not stop it before its jobs are done or saved", claim.Name)}
	case claim.Status.Phase == corev1.ClaimLost:
		return volumeState{record: recorded, missing: fmt.Sprintf("volume %s of PersistentVolumeClaim %s is lost; restore it", claim.Spec.VolumeName, claim.Name)}
	case claim.Status.Phase == corev1.ClaimBound:
		return volumeState{record: string(claim.UID) + "/" + claim.Spec.VolumeName}
	}
	return volumeState{record: recorded}
}

// adopted returns the claim as it should be: owned by the flow, and as large as asked for. It is nil where nothing differs.
func adopted(flow *v1alpha1.WorkPullingFlow, claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	if claim == nil || claim.DeletionTimestamp != nil {
		return nil
	}
	after, changed := claim.DeepCopy(), false
	for key, value := range podbuilder.ProducerLabels(flow) {
		if after.Labels[key] != value {
			metav1.SetMetaDataLabel(&after.ObjectMeta, key, value)
			changed = true
		}
	}
	if !ownedBy(claim, flow) {
		after.OwnerReferences = append(after.OwnerReferences, metav1.OwnerReference{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindWorkPullingFlow, Name: flow.Name, UID: flow.UID, BlockOwnerDeletion: ptr.To(false),
		})
		changed = true
	}
	want := flow.Spec.Queue.VolumeSize()
	if have := claim.Spec.Resources.Requests[corev1.ResourceStorage]; claim.Status.Phase == corev1.ClaimBound && want.Cmp(have) > 0 {
		after.Spec.Resources.Requests[corev1.ResourceStorage] = want
		changed = true
	}
	if !changed {
		return nil
	}
	return after
}

func ownedBy(claim *corev1.PersistentVolumeClaim, flow *v1alpha1.WorkPullingFlow) bool {
	for _, owner := range claim.OwnerReferences {
		if owner.UID == flow.UID {
			return true
		}
	}
	return false
}
