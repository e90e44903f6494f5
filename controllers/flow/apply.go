package flow

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/controllers/networkpolicy"
	"github.com/workpulling/workpulling/internal/children"
	"github.com/workpulling/workpulling/internal/patch"
	"github.com/workpulling/workpulling/internal/podhealth"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// applied is what came of an apply, for the status.
type applied struct {
	renewIn time.Duration
	// certificateTrouble is what a person has to look at before the certificate ends.
	certificateTrouble string
	// obstacle is what keeps the producer from being made; its error is returned besides.
	obstacle podhealth.Problem
	// resizeRefused is the API server's answer to a larger volume.
	resizeRefused string
}

// apply brings the plan about. Everything that the producer mounts is there before the producer.
func (r *Reconciler) apply(ctx context.Context, o *observation, p plan) (applied, error) {
	var a applied
	issued, err := r.ensureCertificate(ctx, o.flow)
	a.renewIn, a.certificateTrouble = issued.RenewIn, issued.Trouble
	switch {
	case err != nil:
		a.obstacle = obstacleOf(v1alpha1.ReasonCertificatePending, err)
		return a, err
	case issued.Missing != "":
		a.obstacle = podhealth.Problem{Reason: v1alpha1.ReasonCertificatePending, Message: issued.Missing}
		if o.set == nil {
			return a, nil
		}
	}
	for _, object := range p.unwanted {
		if err := r.Issuer.Keeper.Remove(ctx, object); err != nil {
			a.obstacle = obstacleOf(v1alpha1.ReasonReconcileFailed, err)
			return a, err
		}
	}
	for _, object := range p.objects {
		wrote, err := r.Issuer.Keeper.Ensure(ctx, object)
		if err != nil {
			a.obstacle = obstacleOf(networkpolicy.RefusalReason(object, err), err)
			return a, err
		}
		if _, document := object.(*corev1.ConfigMap); wrote && document {
			for i := range o.pods {
				r.hurry(ctx, &o.pods[i], p.configHash)
			}
		}
	}
	if err := r.ensureStatefulSet(ctx, o, p.set); err != nil {
		a.obstacle = obstacleOf(v1alpha1.ReasonReconcileFailed, err)
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			a.obstacle.Reason = v1alpha1.ReasonTemplateInvalid
		}
		return a, err
	}
	if err := r.replaceLost(ctx, o); err != nil {
		return a, err
	}
	if err := r.rememberVolume(ctx, o.flow, p.volume); err != nil {
		return a, err
	}
	if p.claim == nil {
		return a, nil
	}
	switch err := r.Client.Patch(ctx, p.claim, client.MergeFrom(o.claim)); {
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		a.resizeRefused = err.Error()
	case err != nil:
		return a, fmt.Errorf("patching the volume's claim: %w", err)
	}
	return a, nil
}

// hurry makes kubelet look at the producer's configuration now. By itself it does so about once a minute, which is long for a suspended
// flow and for a deletion that waits for the intake to close. A failure costs that minute and nothing else.
func (r *Reconciler) hurry(ctx context.Context, pod *corev1.Pod, configHash string) {
	if pod.DeletionTimestamp != nil {
		return
	}
	after := pod.DeepCopy()
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, v1alpha1.AnnotationConfiguration, configHash)
	if err := client.IgnoreNotFound(r.Client.Patch(ctx, after, client.MergeFrom(pod))); err != nil {
		log.FromContext(ctx).Info("Cannot hurry the producer's configuration", "pod", pod.Name, "error", err.Error())
	}
}

func obstacleOf(reason string, err error) podhealth.Problem {
	if taken := (*children.NameConflictError)(nil); errors.As(err, &taken) {
		reason = v1alpha1.ReasonNameConflict
	}
	return podhealth.Problem{Reason: reason, Message: err.Error()}
}

func (r *Reconciler) rememberVolume(ctx context.Context, flow *v1alpha1.WorkPullingFlow, volume string) error {
	if volume == "" || flow.Annotations[AnnotationVolume] == volume {
		return nil
	}
	before := flow.DeepCopy()
	if flow.Annotations == nil {
		flow.Annotations = map[string]string{}
	}
	flow.Annotations[AnnotationVolume] = volume
	if err := r.Client.Patch(ctx, flow, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("noting the volume: %w", err)
	}
	return nil
}

// witness is what an Event about the end of the flow is about. A namespace that is being deleted takes no Events any more; those about the
// namespace itself are kept in the namespace default, where a Confined operator makes none: there is no witness then.
func (o *observation) witness() runtime.Object {
	if o.namespace == nil {
		return nil
	}
	if o.namespace.DeletionTimestamp != nil {
		return o.namespace
	}
	return o.flow
}

// release removes what no owner reference removes, and lets the flow go.
func (r *Reconciler) release(ctx context.Context, o *observation, why string) error {
	if !r.Settings.Confined {
		binding := clusterRoleBinding(o.flow, r.Settings.TokenReviewerClusterRole)
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, binding)); err != nil {
			return fmt.Errorf("deleting the ClusterRoleBinding: %w", err)
		}
	}
	if o.namespace != nil && o.namespace.DeletionTimestamp == nil {
		if err := r.Issuer.Forget(ctx, o.flow.Namespace, runtimeconfig.ProducerName(o.flow.Name)); err != nil {
			return err
		}
	}
	released, err := patch.RemoveFinalizer(ctx, r.Client, o.flow, v1alpha1.FinalizerFlow)
	if err != nil {
		return err
	}
	if witness := o.witness(); released && witness != nil {
		// The flow is named as the related object too: Events about one namespace that differ in their text alone are taken for repeats.
		r.Recorder.Eventf(witness, o.flow, corev1.EventTypeNormal, "Released", "Deleting", "Released WorkPullingFlow %s: %s", o.flow.Name, why)
	}
	if o.set != nil {
		r.verified.forget(o.set.UID)
	}
	r.Stats.Forget(client.ObjectKeyFromObject(o.flow))
	r.Metrics.ForgetFlow(o.flow.Namespace, o.flow.Name)
	return nil
}
