package provisioner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// provisionedBy marks the volumes that a provisioner of this kind made, and names which.
const provisionedBy = "pv.kubernetes.io/provisioned-by"

// Provisioner serves the claims of the StorageClasses that bear its name.
type Provisioner struct {
	Client kubernetes.Interface
	Name   string // that StorageClasses use in their provisioner field
	Root   string // directory of the volumes, the same on every node
}

// provision makes the directory and the volume of a claim that waits for this provisioner. It may be called again at
// any point: the volume's name follows from the claim's UID.
func (p *Provisioner) provision(ctx context.Context, claim *v1.PersistentVolumeClaim) error {
	class, err := p.Client.StorageV1().StorageClasses().Get(ctx, *claim.Spec.StorageClassName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the class of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	volume := p.volumeFor(claim, class)
	dir := volume.Spec.Local.Path
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("making volume %s: %w", volume.Name, err)
	}
	if err := os.Chmod(dir, 0o777); err != nil { // the umask had its say in MkdirAll
		return fmt.Errorf("opening volume %s to pods: %w", volume.Name, err)
	}
	if _, err := p.Client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating volume %s: %w", volume.Name, err)
	}
	klog.InfoS("Provisioned", "volume", volume.Name, "claim", klog.KObj(claim))
	return nil
}

// volumeFor is pure: the volume that satisfies the claim.
func (p *Provisioner) volumeFor(claim *v1.PersistentVolumeClaim, class *storagev1.StorageClass) *v1.PersistentVolume {
	name := "pvc-" + string(claim.UID)
	reclaim := v1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		reclaim = *class.ReclaimPolicy
	}
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{provisionedBy: p.Name}},
		Spec: v1.PersistentVolumeSpec{
			StorageClassName:              class.Name,
			PersistentVolumeReclaimPolicy: reclaim,
			AccessModes:                   claim.Spec.AccessModes,
			Capacity:                      v1.ResourceList{v1.ResourceStorage: claim.Spec.Resources.Requests[v1.ResourceStorage]},
			ClaimRef: &v1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: filepath.Join(p.Root, name)}},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelOSStable, Operator: v1.NodeSelectorOpExists}},
			}}}},
		},
	}
}

// delete removes a released volume and its data.
func (p *Provisioner) delete(ctx context.Context, volume *v1.PersistentVolume) error {
	if err := os.RemoveAll(filepath.Join(p.Root, volume.Name)); err != nil {
		return fmt.Errorf("deleting the data of volume %s: %w", volume.Name, err)
	}
	if err := p.Client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting volume %s: %w", volume.Name, err)
	}
	klog.InfoS("Deleted", "volume", volume.Name)
	return nil
}

// waits reports whether the claim is ours to provision: the volume controller names the provisioner in an annotation.
func (p *Provisioner) waits(claim *v1.PersistentVolumeClaim) bool {
	block := claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode == v1.PersistentVolumeBlock
	return claim.Annotations["volume.kubernetes.io/storage-provisioner"] == p.Name &&
		claim.Spec.VolumeName == "" && claim.Spec.StorageClassName != nil && claim.DeletionTimestamp == nil && !block
}

// released reports whether the volume is ours to delete.
func (p *Provisioner) released(volume *v1.PersistentVolume) bool {
	return volume.Annotations[provisionedBy] == p.Name && volume.Status.Phase == v1.VolumeReleased &&
		volume.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete && volume.DeletionTimestamp == nil
}

// Run looks at all claims and volumes whenever one of them changed, and again a second after a failure, until the
// context ends. A pass over a stale cache does no harm: what was made is made again under the same name.
func (p *Provisioner) Run(ctx context.Context) error {
	factory := informers.NewSharedInformerFactory(p.Client, 0)
	claims, volumes := factory.Core().V1().PersistentVolumeClaims(), factory.Core().V1().PersistentVolumes()
	changed := make(chan struct{}, 1)
	wake := func() {
		select {
		case changed <- struct{}{}:
		default: // a pass is due already
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: func(any) { wake() }, UpdateFunc: func(any, any) { wake() }}
	for _, informer := range []cache.SharedIndexInformer{claims.Informer(), volumes.Informer()} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("watching: %w", err)
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for {
		var retry <-chan time.Time
		if err := p.pass(ctx, claims.Lister(), volumes.Lister()); err != nil {
			klog.ErrorS(err, "Will try again")
			retry = time.After(time.Second)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-retry:
		}
	}
}

// pass does all that is due now; the failure of one does not keep the others waiting.
func (p *Provisioner) pass(ctx context.Context, claims corelisters.PersistentVolumeClaimLister, volumes corelisters.PersistentVolumeLister) error {
	allClaims, err := claims.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing claims: %w", err)
	}
	allVolumes, err := volumes.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing volumes: %w", err)
	}
	var errs []error
	for _, claim := range allClaims {
		if p.waits(claim) {
			errs = append(errs, p.provision(ctx, claim))
		}
	}
	for _, volume := range allVolumes {
		if p.released(volume) {
			errs = append(errs, p.delete(ctx, volume))
		}
	}
	return errors.Join(errs...)
}
