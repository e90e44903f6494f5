package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/test/builders"
	"github.com/workpulling/workpulling/test/harness"
	"github.com/workpulling/workpulling/test/prober"
)

// Programs of the runtime's image.
const (
	sidecarProgram  = "/workpulling/sidecar"
	operatorProgram = "/workpulling/operator"
)

// Times that no step should take.
const (
	readyLimit    = 3 * time.Minute
	takeoverLimit = time.Minute
	fencedLimit   = time.Minute
)

const (
	controlPlane = "control-plane"
	apiServer    = "kube-apiserver"
)

// errUndo says that a fault stands and cannot be undone: nothing more can be learnt.
var errUndo = errors.New("it cannot be undone")

// do carries one fault out, undoes it, and notes whom it hit.
func (b *Bed) do(ctx context.Context, f Fault, act *Act) error {
	switch f.Kind {
	case KillSidecar, KillApp, DeleteWorker:
		return b.hitWorker(ctx, f, act)
	case KillProducer, DeleteProducer:
		return b.hitProducer(ctx, f, act)
	case FenceProducer:
		return b.fence(ctx, f, act)
	case CutNode:
		return b.cut(ctx, f, act)
	case DrainNode:
		return b.drain(ctx, f, act)
	case StopAPIServer, FreezeAPIServer:
		return b.silence(ctx, f, act)
	case RemoveOperator:
		return b.removeOperator(ctx, f, act)
	case KillOperator:
		return b.killOperator(ctx, act)
	case KillDatabase:
		return b.killDatabase(ctx, f, act)
	case RestoreEtcd:
		return b.restoreEtcd(ctx, f, act)
	case RollPool:
		return b.roll(ctx, f, act)
	case ScalePool:
		return b.scale(ctx, f, act)
	case RenewServing:
		return b.renew(ctx, f, act)
	case RotateAuthority:
		return b.rotate(ctx, act)
	case RotateKey:
		return b.replaceKey(ctx, act)
	default:
		return fmt.Errorf("nobody knows how to do %q", f.Kind)
	}
}

// pick chooses one of the pods of a role of all flows.
func (b *Bed) pick(role string, f Fault) (pod, string, error) {
	var pods []pod
	var flows []string
	for _, of := range b.flows {
		for _, p := range b.view.pods(of.name, role) {
			pods, flows = append(pods, p), append(flows, of.name)
		}
	}
	if len(pods) == 0 {
		return pod{}, "", errors.New("no " + role + " is there")
	}
	at := f.Target % len(pods)
	return pods[at], flows[at], nil
}

// hitWorker kills a process of a worker, or deletes its pod by force.
func (b *Bed) hitWorker(ctx context.Context, f Fault, act *Act) error {
	p, _, err := b.pick(v1alpha1.RoleWorker, f)
	if err != nil {
		return err
	}
	act.What, act.Workers = p.Name, []string{p.uid()}
	switch f.Kind {
	case KillSidecar:
		act.Sidecars = []string{p.uid()}
		return b.kill(p, sidecarProgram, act)
	case KillApp:
		return b.kill(p, appProgram, act)
	default:
		return b.client.Delete(ctx, &p.Pod, client.GracePeriodSeconds(0))
	}
}

func (b *Bed) kill(p pod, program string, act *Act) error {
	act.Killed = append(act.Killed, p.uid())
	_, err := harness.Signal(p.uid(), program, syscall.SIGKILL)
	return err
}

// hitProducer kills the process of a producer, or deletes its pod by force.
func (b *Bed) hitProducer(ctx context.Context, f Fault, act *Act) error {
	p, flow, err := b.pick(v1alpha1.RoleProducer, f)
	if err != nil {
		return err
	}
	act.What, act.Flows = p.Name, []string{flow}
	if f.Kind == KillProducer {
		return b.kill(p, sidecarProgram, act)
	}
	return b.client.Delete(ctx, &p.Pod, client.GracePeriodSeconds(0))
}

// fence pauses the active producer of the shared queue until another has taken over, and for longer. When it goes on it has to find that
// it was fenced, or be gone.
func (b *Bed) fence(ctx context.Context, f Fault, act *Act) error {
	shared := b.flows[slices.IndexFunc(b.flows, func(f *flow) bool { return f.shared })]
	var p pod
	if !prober.Await(ctx, takeoverLimit, time.Second, func(ctx context.Context) (found bool) {
		p, found = b.active(ctx, shared)
		return found
	}) {
		return errors.New("no producer says that it has the queue")
	}
	act.What, act.Flows, act.Killed = p.Name, []string{shared.name}, []string{p.uid()} // its probe may fail for long enough
	before, err := b.metric(ctx, p, "workpulling_flow_member_fenced_total")
	if err != nil {
		return err
	}
	pid, err := harness.Signal(p.uid(), sidecarProgram, syscall.SIGSTOP)
	if err != nil {
		return err
	}
	taken := prober.Await(ctx, takeoverLimit, time.Second, func(ctx context.Context) bool {
		next, found := b.active(ctx, shared)
		return found && next.UID != p.UID
	})
	if taken {
		prober.Pause(ctx, f.For)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
		return errors.Join(errUndo, err)
	}
	if !taken {
		return fmt.Errorf("nobody took over from %s within %s", p.Name, takeoverLimit)
	}
	if !prober.Await(ctx, fencedLimit, time.Second, func(ctx context.Context) bool {
		count, err := b.metric(ctx, p, "workpulling_flow_member_fenced_total")
		return err == nil && count > before || syscall.Kill(pid, 0) != nil
	}) {
		return fmt.Errorf("%s went on after another producer had taken over, and is not fenced", p.Name)
	}
	return nil
}

// cut cuts a node off with everything on it, which runs on.
func (b *Bed) cut(ctx context.Context, f Fault, act *Act) error {
	node := b.nodes[f.Target%len(b.nodes)]
	b.hitNode(node, act)
	for _, p := range b.view.on(node, v1alpha1.RoleWorker, b.flows) {
		act.Workers = append(act.Workers, p.uid())
	}
	if err := b.cluster.Run(ctx, "partition", node); err != nil {
		return err
	}
	prober.Pause(ctx, f.For)
	if err := b.cluster.Run(context.WithoutCancel(ctx), "heal", node); err != nil {
		return errors.Join(errUndo, err)
	}
	return nil
}

// hitNode notes whose producers are on a node. A Local queue cannot be served from elsewhere while its node is away.
func (b *Bed) hitNode(node string, act *Act) {
	act.What = node
	for _, f := range b.flows {
		if len(b.view.on(node, v1alpha1.RoleProducer, []*flow{f})) == 0 {
			continue
		}
		act.Flows = append(act.Flows, f.name)
		if !f.shared {
			act.Halts = append(act.Halts, f.name)
		}
	}
}

// drain evicts what is on a node, as a person does before work on it.
func (b *Bed) drain(ctx context.Context, f Fault, act *Act) error {
	node := b.nodes[f.Target%len(b.nodes)]
	b.hitNode(node, act)
	_, err := b.kubectl.Get(ctx, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=3m", "--pod-selector="+v1alpha1.LabelRole)
	if _, undo := b.kubectl.Get(context.WithoutCancel(ctx), "uncordon", node); undo != nil {
		return errors.Join(errUndo, undo, err)
	}
	return err
}

// silence takes the API server away: killed and not started again, so that connections are refused, or stopped, so that they hang.
func (b *Bed) silence(ctx context.Context, f Fault, act *Act) error {
	act.What = apiServer
	always := context.WithoutCancel(ctx)
	begin := func() error { return b.cluster.Run(ctx, "stop", controlPlane, apiServer) }
	end := func() error { return b.cluster.Run(always, "start", controlPlane, apiServer) }
	if f.Kind == FreezeAPIServer {
		pid, err := b.cluster.PID(ctx, controlPlane, apiServer)
		if err != nil {
			return err
		}
		signal := func(ctx context.Context, name string) error {
			return b.cluster.Run(ctx, "nsenter", controlPlane, "--", "kill", "-"+name, strconv.Itoa(pid))
		}
		begin = func() error { return signal(ctx, "STOP") }
		end = func() error { return signal(always, "CONT") }
	}
	if err := begin(); err != nil {
		return errors.Join(err, end())
	}
	err := b.stand(ctx, f, act)
	if undo := end(); undo != nil {
		return errors.Join(errUndo, undo, err)
	}
	if !prober.Await(always, readyLimit, time.Second, func(ctx context.Context) bool { return b.view.refresh(ctx) == nil }) {
		return errors.Join(errUndo, errors.New("the API server does not answer again"), err)
	}
	return err
}

// stand lets an outage of the control plane last, and kills a process in the middle of it where the plan says so.
func (b *Bed) stand(ctx context.Context, f Fault, act *Act) error {
	began := time.Now()
	prober.Pause(ctx, f.For/3)
	var err error
	if f.Beside != nil {
		beside := Act{Kind: f.Beside.Kind, From: prober.Now()}
		err = b.do(ctx, *f.Beside, &beside)
		beside.To = prober.Now()
		act.beside = append(act.beside, beside)
	}
	prober.Pause(ctx, f.For-time.Since(began))
	return err
}

func (b *Bed) operator(ctx context.Context, replicas int) error {
	if _, err := b.kubectl.Get(ctx, "-n", harness.SystemNamespace, "scale", "deployment/workpulling", "--replicas="+strconv.Itoa(replicas)); err != nil {
		return err
	}
	_, err := b.kubectl.Get(ctx, "-n", harness.SystemNamespace, "rollout", "status", "deployment/workpulling", "--timeout=3m")
	return err
}

// removeOperator runs nothing of the operator for a while.
func (b *Bed) removeOperator(ctx context.Context, f Fault, act *Act) error {
	act.What = "operator"
	err := b.operator(ctx, 0)
	if err == nil {
		err = b.stand(ctx, f, act)
	}
	if undo := b.operator(context.WithoutCancel(ctx), b.operators); undo != nil {
		return errors.Join(errUndo, undo, err)
	}
	return err
}

// killOperator waits for one that runs: kubelet takes its time to start one again that was killed before.
func (b *Bed) killOperator(ctx context.Context, act *Act) error {
	failed := harness.ErrNotHere
	prober.Await(ctx, readyLimit, time.Second, func(ctx context.Context) bool {
		var pods corev1.PodList
		if failed = b.client.List(ctx, &pods, client.InNamespace(harness.SystemNamespace)); failed != nil {
			return false
		}
		failed = harness.ErrNotHere
		for _, p := range pods.Items {
			if _, failed = harness.Signal(string(p.UID), operatorProgram, syscall.SIGKILL); failed == nil {
				act.What = p.Name
				return true
			}
		}
		return false
	})
	return failed
}

// killDatabase ends PostgreSQL as a crash does, for a while.
func (b *Bed) killDatabase(ctx context.Context, f Fault, act *Act) error {
	act.What = "PostgreSQL"
	for _, of := range b.flows {
		if of.shared {
			act.Flows, act.Halts = append(act.Flows, of.name), append(act.Halts, of.name)
		}
	}
	if err := b.database.Kill(); err != nil {
		return err
	}
	prober.Pause(ctx, f.For)
	if err := b.database.Run(); err != nil {
		return errors.Join(errUndo, err)
	}
	return nil
}

// restoreEtcd saves the cluster's objects, deletes a worker so that they change, and takes them back in time. What runs on the nodes is then
// started anew, as Kubernetes wants it, for it watches a future that is gone.
func (b *Bed) restoreEtcd(ctx context.Context, f Fault, act *Act) error {
	act.Workers = b.workers()
	for _, of := range b.flows {
		act.Flows = append(act.Flows, of.name)
	}
	snapshot := filepath.Join(b.Dir, fmt.Sprintf("etcd-%d", act.From))
	defer os.RemoveAll(snapshot)
	if err := b.cluster.Run(ctx, "snapshot", "save", snapshot); err != nil {
		return err
	}
	p, _, err := b.pick(v1alpha1.RoleWorker, f)
	if err == nil {
		act.What = "after the deletion of " + p.Name
		act.Killed = append(act.Killed, p.containers()...) // its kubelet starts them again when the pod is back
		err = b.persist(ctx, func(ctx context.Context) error { return b.client.Delete(ctx, &p.Pod, client.GracePeriodSeconds(0)) })
		prober.Pause(ctx, f.For)
	}
	before := b.workers()
	always := context.WithoutCancel(ctx)
	if undo := b.cluster.Run(always, "snapshot", "restore", snapshot); undo != nil {
		return errors.Join(errUndo, undo, err)
	}
	if undo := b.startAnew(always, "kubelet", "kube-proxy"); undo != nil {
		return errors.Join(errUndo, undo, err)
	}
	err = errors.Join(err, b.await(ctx, "the API server answers again", func() bool { return true }))
	after := b.workers()
	act.Orphans = slices.DeleteFunc(before, func(uid string) bool { return slices.Contains(after, uid) })
	return err
}

// workers are the UIDs of all worker pods.
func (b *Bed) workers() (out []string) {
	for _, f := range b.flows {
		for _, p := range b.view.pods(f.name, v1alpha1.RoleWorker) {
			out = append(out, p.uid())
		}
	}
	return out
}

// persist repeats a request while the API server comes back.
func (b *Bed) persist(ctx context.Context, do func(context.Context) error) error {
	var err error
	prober.Await(ctx, readyLimit, time.Second, func(ctx context.Context) bool {
		err = do(ctx)
		return err == nil || apierrors.IsNotFound(err)
	})
	return client.IgnoreNotFound(err)
}

// roll changes a pool's template, and waits until no worker of before is left.
func (b *Bed) roll(ctx context.Context, f Fault, act *Act) error {
	of := b.flows[f.Target%len(b.flows)]
	act.What = of.name
	if err := b.view.refresh(ctx); err != nil {
		return err
	}
	before := map[string]bool{}
	for _, p := range b.view.pods(of.name, v1alpha1.RoleWorker) {
		before[p.uid()] = true
	}
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"chaos":%q}}}}}`, strconv.FormatInt(int64(act.From), 10))
	if err := b.client.Patch(ctx, b.poolOf(of), client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		return err
	}
	return b.await(ctx, "no worker of before is left", func() bool {
		pods := b.view.pods(of.name, v1alpha1.RoleWorker)
		return !slices.ContainsFunc(pods, func(p pod) bool { return before[p.uid()] })
	})
}

func (b *Bed) poolOf(f *flow) client.Object {
	return builders.MakePool(f.name, b.namespace, f.name).Obj()
}

func (b *Bed) await(ctx context.Context, what string, condition func() bool) error {
	if !prober.Await(ctx, readyLimit, time.Second, func(ctx context.Context) bool { return b.view.refresh(ctx) == nil && condition() }) {
		return fmt.Errorf("%s: not within %s", what, readyLimit)
	}
	return nil
}

// scale makes a pool larger for a while.
func (b *Bed) scale(ctx context.Context, f Fault, act *Act) error {
	of := b.flows[f.Target%len(b.flows)]
	more := workers + 1 + f.Target%2
	act.What = fmt.Sprintf("%s to %d and back", of.name, more)
	to := func(ctx context.Context, n int) error {
		_, err := b.kubectl.Get(ctx, "-n", b.namespace, "scale", "workerpool", of.name, "--replicas="+strconv.Itoa(n))
		return err
	}
	have := func(n int) func() bool {
		return func() bool {
			pods := b.view.pods(of.name, v1alpha1.RoleWorker)
			return len(pods) == n && !slices.ContainsFunc(pods, func(p pod) bool { return !p.ready() })
		}
	}
	err := to(ctx, more)
	if err == nil {
		err = b.await(ctx, fmt.Sprintf("%d workers are ready", more), have(more))
		prober.Pause(ctx, f.For)
	}
	if undo := to(context.WithoutCancel(ctx), workers); undo != nil {
		return errors.Join(errUndo, undo, err)
	}
	return errors.Join(err, b.await(ctx, fmt.Sprintf("%d workers are ready", workers), have(workers)))
}
