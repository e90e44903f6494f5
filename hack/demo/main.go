package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/workpulling/workpulling/test/harness"
)

const (
	namespace = "workpulling-samples"
	flow      = "documents"
	pool      = "documents"
	// maxDocumentBytes is below the payload limit of the sample flow.
	maxDocumentBytes = 64 << 10
)

func main() {
	documents := flag.Int("documents", 6000, "how many documents to submit")
	connections := flag.Int("connections", 32, "how many documents are submitted at once")
	timeout := flag.Duration("timeout", 15*time.Minute, "give up after this time")
	root := flag.String("root", ".", "the repository")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	clean, err := run(ctx, *root, *documents, *connections)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		os.Exit(1)
	}
	if !clean {
		os.Exit(1)
	}
}

func run(ctx context.Context, root string, count, connections int) (clean bool, err error) {
	kubectl := harness.FromEnvironment()
	kubectl.Echo = os.Stdout
	images, err := harness.ReadImages(root)
	if err != nil {
		return false, err
	}

	title("The charts")
	if err := kubectl.Install(ctx, root, images); err != nil {
		return false, err
	}
	title("The samples: a flow, a pool of three workers, a store of effects")
	if err := apply(ctx, kubectl, root, images); err != nil {
		return false, err
	}

	title(fmt.Sprintf("%d documents of this machine", count))
	documents, err := harness.Documents(ctx, count, maxDocumentBytes)
	if err != nil {
		return false, err
	}
	submitter := &harness.Submitter{
		Kubectl: kubectl, Namespace: namespace, Flow: flow, Connections: connections,
		Source: "/demo/" + strconv.FormatInt(time.Now().Unix(), 36),
	}
	effects := &harness.Effects{Kubectl: kubectl, Namespace: namespace}
	fmt.Printf("  for example %s; their jobs have the source %s\n", documents[count/2].ID, submitter.Source)
	if err := submitter.Bring(ctx, documents); err != nil {
		return false, err
	}

	title("Documents flow, and things are killed")
	job := &job{kubectl: kubectl, submitter: submitter, effects: effects, total: count, chaos: chaos()}
	took, err := job.watch(ctx)
	if err != nil {
		return false, err
	}

	title("The proof")
	confirmed, err := submitter.Check(ctx, func(harness.Progress) {})
	if err != nil {
		return false, err
	}
	list, err := effects.List(ctx, submitter.Source)
	if err != nil {
		return false, err
	}
	clean = table(documents, job, confirmed, harness.Judge(documents, list), took)
	next(kubectl)
	return clean, nil
}

// apply applies the samples and waits until three workers are bound and documents can be brought.
func apply(ctx context.Context, kubectl *harness.Kubectl, root string, images harness.Images) error {
	if err := kubectl.ApplySamples(ctx, root, images, harness.Overlay{}, "config/samples"); err != nil {
		return err
	}
	for _, wait := range [][]string{
		{"wait", "--for=condition=Ready", "--timeout=3m", "workpullingflow/" + flow},
		{"wait", "--for=condition=Ready", "--timeout=3m", "workerpool/" + pool},
		{"wait", "--for=condition=Progressing=False", "--timeout=3m", "workerpool/" + pool},
		{"rollout", "status", "--timeout=2m", "statefulset/effects"},
		{"rollout", "status", "--timeout=2m", "deployment/submitter"},
	} {
		if err := kubectl.Do(ctx, append([]string{"-n", namespace}, wait...)...); err != nil {
			return explain(ctx, kubectl, err)
		}
	}
	return kubectl.Do(ctx, "-n", namespace, "get", "workpulling")
}

// explain adds what the objects say of themselves to an error.
func explain(ctx context.Context, kubectl *harness.Kubectl, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	for _, args := range [][]string{
		{"get", "workpulling,statefulsets,pods,pvc"},
		{"describe", "workpulling"},
		{"get", "events", "--field-selector=type=Warning"},
		{"logs", "-l", "workpulling.dev/role=producer", "--all-containers", "--tail=20"},
	} {
		state, stateErr := kubectl.Get(ctx, append([]string{"-n", namespace}, args...)...)
		err = fmt.Errorf("%w\n\n$ kubectl %s\n%s", errors.Join(err, stateErr), strings.Join(args, " "), state)
	}
	return err
}
