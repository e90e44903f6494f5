// Command kube is a complete Kubernetes in one file: every component is a sub-command of it.
//
//	kube etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubelet|kube-proxy|coredns|storage-provisioner|kubectl [flags]
//
// It may also be called through a symbolic link that bears the component's name, as envtest does.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	_ "time/tzdata"

	"github.com/coredns/coredns/coremain"
	// Only the plugins of our Corefile: the full set would bring the SDKs of every cloud.
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// components maps a sub-command to what runs it; each function ends the process or returns its exit code.
var components = map[string]func() int{
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"coredns":                 func() int { coremain.Run(); return 0 },
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kube-proxy":              func() int { return cli.Run(proxy.NewProxyCommand()) },
	"kubelet":                 func() int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) },
	"storage-provisioner":     func() int { return cli.Run(newProvisionerCommand()) },
	"kubectl":                 runKubectl,
}

func main() {
	name := filepath.Base(os.Args[0])
	if components[name] == nil && len(os.Args) > 1 {
		// Drop the sub-command, so that the component sees the arguments it would have had as a binary of its own.
		name = os.Args[1]
		os.Args = append([]string{name}, os.Args[2:]...)
	}
	run := components[name]
	if run == nil {
		fmt.Fprintf(os.Stderr, "kube: unknown component %q; one of: %s\n", name, strings.Join(names(), ", "))
		os.Exit(2)
	}
	os.Exit(run())
}

// runKubectl ends the process with kubectl's own exit codes and error texts.
func runKubectl() int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
	return 0
}

func names() []string {
	out := make([]string, 0, len(components))
	for n := range components {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}
