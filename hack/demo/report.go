package main

import (
	"fmt"
	"os"
	"time"

	"github.com/workpulling/workpulling/test/harness"
)

func title(text string) { fmt.Printf("\n\033[1m── %s\033[0m\n", text) }

// table prints the result and says whether every line of it is true.
func table(documents []harness.Document, j *job, confirmed harness.Progress, v harness.Verdict, took time.Duration) bool {
	clean := true
	line := func(name string, value any, ok bool, remark string) {
		mark := "✓"
		if !ok {
			mark, clean = "✗", false
		}
		fmt.Printf("  %s %-22s %8v   %s\n", mark, name, value, remark)
	}
	n := len(documents)
	line("submitted", n, n > 0, "documents, once each or again until accepted")
	line("accepted", j.submitted.Accepted, int(j.submitted.Accepted) == n, fmt.Sprintf("by the intake, after %d repeated submissions; refused %d", j.submitted.Repeats, j.submitted.Refused))
	line("confirmed", confirmed.Accepted, int(confirmed.Accepted) == n, "by a worker, as the intake says of each job")
	line("effects", v.Effects, v.Effects == n, "in the store, each with the hash of its document")
	line("lost", v.Lost, v.Lost == 0, "")
	line("wrong, split, foreign", fmt.Sprintf("%d, %d, %d", v.Wrong, v.Split, v.Foreign), v.Clean(), "effects with other content, more than one message id, no document")
	line("killed", len(j.killed), len(j.chaos) == 0, "things, in the middle of it")
	line("run again", v.Redelivered, true, fmt.Sprintf("executions after the first of a job; %d of them repeated a finished one", v.Duplicates))
	line("jobs per second", fmt.Sprintf("%.0f", float64(n)/took.Seconds()), true, fmt.Sprintf("over %.0f s with all of that", took.Seconds()))
	if clean {
		fmt.Println("\n  lost 0")
	} else {
		fmt.Println("\n  NOT CLEAN: a line above is false")
	}
	return clean
}

// clusterName is what a command line needs in front to mean the cluster of this run.
func clusterName() string {
	if name := os.Getenv("CLUSTER_NAME"); name != "" {
		return "CLUSTER_NAME=" + name + " "
	}
	return ""
}

// next says what to look at.
func next(kubectl *harness.Kubectl) {
	title("What to look at next")
	if kubectl.Kubeconfig != "" {
		fmt.Printf("  export KUBECONFIG=%s\n", kubectl.Kubeconfig)
	}
	fmt.Printf(`  kubectl get workpulling -A                                    both kinds
  kubectl -n %[1]s describe workpullingflow %[2]s        what its conditions say
  kubectl -n %[1]s logs %[2]s-producer-0                  the producer
  kubectl -n %[1]s logs -l workpulling.dev/pool=%[3]s -c workpulling-sidecar
  kubectl -n %[1]s scale workerpool %[3]s --replicas=5   more workers; then fewer, and see them drain
  %[4]smake demo                                                     all of it again
  %[4]smake cluster-down                                             stop the local cluster
`, namespace, flow, pool, clusterName())
}
