package crash

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/test/prober"
)

// pod is one pod of the bed: its volumes and its containers, which run as long as the pod is there.
type pod struct {
	object  *corev1.Pod
	address netip.Addr
	volumes volumes
	sidecar *container
	app     *container // nil in a producer without an app

	mu    sync.Mutex
	ready bool
}

func (p *pod) role() string { return p.object.Labels[v1alpha1.LabelRole] }
func (p *pod) name() string { return p.object.Name }
func (p *pod) uid() string  { return string(p.object.UID) }
func (p *pod) port(n int) string {
	return net.JoinHostPort(p.address.String(), strconv.Itoa(n))
}

func (p *pod) isReady() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready
}

// containers are those that run.
func (p *pod) containers() []*container {
	if p.app == nil {
		return []*container{p.sidecar}
	}
	return []*container{p.sidecar, p.app}
}

func (p *pod) stop() error {
	var errs []error
	for _, c := range p.containers() {
		errs = append(errs, c.stop())
	}
	return errors.Join(errs...)
}

// startPod mounts the volumes of a pod and starts its containers.
func (n *Node) startPod(ctx context.Context, object *corev1.Pod, from objects) (*pod, error) {
	n.count++
	p := &pod{object: object, address: netip.AddrFrom4([4]byte{127, n.net, byte(n.count / 250), byte(n.count%250 + 1)})}
	object.Status.PodIP = p.address.String()
	p.volumes = volumes{
		client: n.client, pod: object, dir: filepath.Join(n.dir, strconv.Itoa(n.count)), claims: filepath.Join(n.dir, "claims"),
		due: map[string]time.Time{},
	}
	if err := p.volumes.write(ctx, from); err != nil {
		return nil, errors.Join(err, os.RemoveAll(p.volumes.dir))
	}
	for _, c := range append(object.Spec.InitContainers, object.Spec.Containers...) {
		switch c.Name {
		case runtimeconfig.ContainerInstall:
			// Prestop is for pods that leave in peace; here none does.
		case runtimeconfig.ContainerSidecar, runtimeconfig.ContainerGateway:
			command, err := n.sidecarCommand(p, c)
			if err != nil {
				return nil, errors.Join(err, p.abort())
			}
			p.sidecar = runContainer(p.name()+"/sidecar", command, n.unasked)
		default:
			p.app = runContainer(p.name()+"/app", n.appCommand(p, c), n.unasked)
		}
	}
	if p.sidecar == nil {
		return nil, errors.Join(fmt.Errorf("pod %s has no sidecar", p.name()), p.abort())
	}
	return p, nil
}

// abort undoes a start.
func (p *pod) abort() error {
	var err error
	if p.sidecar != nil {
		err = p.sidecar.stop()
	}
	return errors.Join(err, os.RemoveAll(p.volumes.dir))
}

// sidecarCommand runs the real sidecar with the arguments and the environment that the operator gave it.
func (n *Node) sidecarCommand(p *pod, c corev1.Container) (command, error) {
	root, err := p.volumes.root(c)
	if err != nil {
		return command{}, err
	}
	env := []string{"KUBERNETES_SERVICE_HOST=" + n.apiHost, "KUBERNETES_SERVICE_PORT=" + n.apiPort, "PATH=" + os.Getenv("PATH")}
	for _, e := range c.Env {
		value := e.Value
		if from := e.ValueFrom; from != nil && from.FieldRef != nil {
			value = fieldOf(p.object, from.FieldRef.FieldPath)
		}
		env = append(env, e.Name+"="+value)
	}
	return command{
		program: n.sidecar,
		args:    append([]string{"--root=" + root, "--host=" + p.address.String(), "--dns=" + n.names.address()}, c.Args...),
		env:     env,
		log:     n.log(p, "sidecar"),
	}, nil
}

// appCommand runs this program as the worker's app.
func (n *Node) appCommand(p *pod, c corev1.Container) command {
	return command{
		program: n.app,
		env: []string{
			prober.EnvApp + "=" + p.port(prober.AppPort), prober.EnvLedger + "=" + filepath.Join(n.ledgers, p.uid()+prober.LedgerSuffix),
			prober.EnvSeed + "=" + strconv.FormatUint(n.seed, 10),
		},
		log: n.log(p, c.Name),
	}
}

func (n *Node) log(p *pod, container string) string {
	return filepath.Join(n.logs, fmt.Sprintf("%s-%s-%s.log", p.name(), p.uid()[:8], container))
}

// look probes a pod and says whether its readiness has changed.
func (p *pod) look(client *http.Client) (changed bool) {
	now := probe(client, p.port(runtimeconfig.PortHealth)) == nil
	p.mu.Lock()
	defer p.mu.Unlock()
	changed = now != p.ready
	p.ready = now
	return changed
}

// status is what kubelet would write of the pod.
func (p *pod) status() corev1.PodStatus {
	ready := corev1.ConditionFalse
	if p.isReady() {
		ready = corev1.ConditionTrue
	}
	status := corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: p.address.String(), PodIPs: []corev1.PodIP{{IP: p.address.String()}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now()}},
	}
	state := func(c corev1.Container, restarts int) corev1.ContainerStatus {
		return corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			Started: ptr.To(true), Ready: p.isReady(), RestartCount: int32(max(restarts-1, 0)),
		}
	}
	_, starts := p.sidecar.running()
	for _, c := range p.object.Spec.InitContainers {
		if c.Name == runtimeconfig.ContainerSidecar {
			status.InitContainerStatuses = append(status.InitContainerStatuses, state(c, starts))
		}
	}
	for _, c := range p.object.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, state(c, 1))
	}
	return status
}
