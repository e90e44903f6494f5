package provisioner

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

const name = "example.test/directory"

func claim(change func(*v1.PersistentVolumeClaim)) *v1.PersistentVolumeClaim {
	class := "standard"
	c := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "data", UID: "1234",
			Annotations: map[string]string{"volume.kubernetes.io/storage-provisioner": name},
		},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod},
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	change(c)
	return c
}

func TestWaits(t *testing.T) {
	block := v1.PersistentVolumeBlock
	for what, c := range map[string]struct {
		change func(*v1.PersistentVolumeClaim)
		want   bool
	}{
		"a new claim":            {func(*v1.PersistentVolumeClaim) {}, true},
		"of somebody else":       {func(c *v1.PersistentVolumeClaim) { c.Annotations = nil }, false},
		"bound":                  {func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }, false},
		"without a class":        {func(c *v1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }, false},
		"going away":             {func(c *v1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{} }, false},
		"for a raw block device": {func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeMode = &block }, false},
	} {
		if got := (&Provisioner{Name: name}).waits(claim(c.change)); got != c.want {
			t.Errorf("%s: got %t", what, got)
		}
	}
}

func TestAClaimGetsAVolumeAndAReleasedVolumeGoes(t *testing.T) {
	client := fake.NewClientset(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "standard"}})
	p := &Provisioner{Client: client, Name: name, Root: t.TempDir()}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	if _, err := client.CoreV1().PersistentVolumeClaims("ns").Create(ctx, claim(func(*v1.PersistentVolumeClaim) {}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	volumes := client.CoreV1().PersistentVolumes()
	var volume *v1.PersistentVolume
	eventually(t, func() (err error) {
		volume, err = volumes.Get(ctx, "pvc-1234", metav1.GetOptions{})
		return err
	})
	dir := filepath.Join(p.Root, "pvc-1234")
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("directory: %v, %v", info, err)
	}
	if volume.Spec.Local.Path != dir || volume.Spec.ClaimRef.UID != "1234" || volume.Spec.AccessModes[0] != v1.ReadWriteOncePod ||
		volume.Spec.PersistentVolumeReclaimPolicy != v1.PersistentVolumeReclaimDelete {
		t.Errorf("volume %+v", volume.Spec)
	}
	volume.Status.Phase = v1.VolumeReleased
	if _, err := volumes.Update(ctx, volume, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The claim is still there without a volume, so both may have been made again: what counts is that the data went.
	if err := client.CoreV1().PersistentVolumeClaims("ns").Delete(ctx, "data", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		_, err := volumes.Get(ctx, "pvc-1234", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return context.DeadlineExceeded
	})
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the data is still there: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestReleased(t *testing.T) {
	p := &Provisioner{Name: name}
	volume := func(by string, phase v1.PersistentVolumePhase, policy v1.PersistentVolumeReclaimPolicy) *v1.PersistentVolume {
		return &v1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{provisionedBy: by}},
			Spec:       v1.PersistentVolumeSpec{PersistentVolumeReclaimPolicy: policy},
			Status:     v1.PersistentVolumeStatus{Phase: phase},
		}
	}
	for what, c := range map[string]struct {
		volume *v1.PersistentVolume
		want   bool
	}{
		"released":         {volume(name, v1.VolumeReleased, v1.PersistentVolumeReclaimDelete), true},
		"in use":           {volume(name, v1.VolumeBound, v1.PersistentVolumeReclaimDelete), false},
		"to be kept":       {volume(name, v1.VolumeReleased, v1.PersistentVolumeReclaimRetain), false},
		"of somebody else": {volume("x", v1.VolumeReleased, v1.PersistentVolumeReclaimDelete), false},
	} {
		if got := p.released(c.volume); got != c.want {
			t.Errorf("%s: got %t", what, got)
		}
	}
}

func eventually(t *testing.T, condition func() error) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		err := condition()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatal(err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
