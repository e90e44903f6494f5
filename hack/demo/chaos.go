package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/workpulling/workpulling/test/harness"
)

// disturbance is one thing that goes wrong in the middle.
type disturbance struct {
	// at is the share of documents that have their effect when it happens.
	at   float64
	what string
	do   func(context.Context, *harness.Kubectl) error
}

func chaos() []disturbance {
	return []disturbance{
		{0.08, "SIGKILL to the app of a worker", killIn(0, "/app")},
		{0.24, "SIGKILL to the runtime beside the app of another worker", killIn(1, "/workpulling/sidecar")},
		{0.40, "deletion of a worker pod", deleteWorker},
		{0.56, "the producer pod is killed without any grace", killProducer},
	}
}

// killIn kills a program of the nth worker. On a cluster of other machines its pod is deleted without grace instead.
func killIn(n int, program string) func(context.Context, *harness.Kubectl) error {
	return func(ctx context.Context, kubectl *harness.Kubectl) error {
		pod, err := worker(ctx, kubectl, n)
		if err != nil {
			return err
		}
		err = kubectl.Kill(ctx, namespace, pod, program)
		if errors.Is(err, harness.ErrNotHere) {
			return kubectl.Do(ctx, "-n", namespace, "delete", "pod", pod, "--grace-period=0", "--force", "--wait=false")
		}
		return err
	}
}

func deleteWorker(ctx context.Context, kubectl *harness.Kubectl) error {
	pod, err := worker(ctx, kubectl, 2)
	if err != nil {
		return err
	}
	return kubectl.Do(ctx, "-n", namespace, "delete", "pod", pod, "--wait=false")
}

func killProducer(ctx context.Context, kubectl *harness.Kubectl) error {
	return kubectl.Do(ctx, "-n", namespace, "delete", "pod", flow+"-producer-0", "--grace-period=0", "--force", "--wait=false")
}

// worker names the nth running worker of the pool, in the order of their names.
func worker(ctx context.Context, kubectl *harness.Kubectl, n int) (string, error) {
	names, err := kubectl.Get(ctx, "-n", namespace, "get", "pods", "-l", "workpulling.dev/pool="+pool,
		"--field-selector=status.phase=Running", "--sort-by=.metadata.name", "-o", "jsonpath={.items[*].metadata.name}")
	if err != nil {
		return "", err
	}
	pods := strings.Fields(names)
	if len(pods) == 0 {
		return "", fmt.Errorf("pool %s has no running worker", pool)
	}
	return pods[n%len(pods)], nil
}
