package flow

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/controllers/podbuilder"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// plan is what one reconcile brings about.
type plan struct {
	objects []client.Object
	// unwanted are removed, where they are there.
	unwanted []client.Object
	// configHash identifies the producer's document among them.
	configHash string
	set        *appsv1.StatefulSet
	// claim is the volume's claim as it should be; nil where nothing differs.
	claim *corev1.PersistentVolumeClaim
	// volume is the value of AnnotationVolume.
	volume string
	ending ending
}

// makePlan decides what should be. It is pure.
func makePlan(o *observation, settings Settings) (plan, error) {
	var p plan
	text, hash, err := runtimeconfig.Marshal(document(o.flow, intakeOf(o), settings))
	if err != nil {
		return plan{}, err
	}
	if o.flow.DeletionTimestamp != nil {
		p.ending = endingOf(o, hash)
	}
	p.objects, p.unwanted, p.configHash = objects(o.flow, text, settings), unwanted(o.flow, settings), hash
	if p.set, err = podbuilder.ProducerStatefulSet(o.flow, settings.Image, o.storage.accessMode()); err != nil {
		return plan{}, err
	}
	if !o.flow.Spec.Queue.HasVolume() {
		return p, nil
	}
	volume := volumeOf(o.flow, o.claim)
	p.volume = volume.record
	if volume.hold {
		p.set.Spec.Replicas = ptr.To[int32](0)
		return p, nil
	}
	p.claim = adopted(o.flow, o.claim)
	return p, nil
}
