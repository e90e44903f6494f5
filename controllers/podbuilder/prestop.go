package podbuilder

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// TemplateError says that no pod can be made from the user's template, for a reason that the API server does not look for.
type TemplateError struct {
	Container string
	Problem   string
}

// Error implements error.
func (e *TemplateError) Error() string {
	return fmt.Sprintf("container %s of the template: %s", e.Container, e.Problem)
}

// wrapPreStop makes a container wait for the drain before its own hook runs, whoever stops the pod and why. The hook goes along as it is,
// also a tcpSocket, which fails when it runs, as it does under kubelet.
func wrapPreStop(c *corev1.Container, drainSeconds int32) error {
	command := []string{runtimeconfig.PrestopBin, fmt.Sprintf("-drain-timeout=%d", drainSeconds)}
	if c.Lifecycle == nil {
		c.Lifecycle = &corev1.Lifecycle{}
	}
	if hook := c.Lifecycle.PreStop; hook != nil {
		if err := resolvePort(hook.HTTPGet, c); err != nil {
			return err
		}
		text, err := json.Marshal(hook)
		if err != nil {
			return fmt.Errorf("encoding the preStop hook of container %s: %w", c.Name, err)
		}
		command = append(command, "-hook="+string(text))
	}
	c.Lifecycle.PreStop = &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: command}}
	c.VolumeMounts = append(c.VolumeMounts,
		corev1.VolumeMount{Name: volumeBin, MountPath: runtimeconfig.BinDir, ReadOnly: true},
		corev1.VolumeMount{Name: volumeRun, MountPath: runtimeconfig.RunDir},
	)
	return nil
}

// resolvePort replaces the name of a port by its number, for inside the pod nobody knows the names.
func resolvePort(get *corev1.HTTPGetAction, c *corev1.Container) error {
	if get == nil || get.Port.Type == intstr.Int {
		return nil
	}
	name := get.Port.StrVal
	i := slices.IndexFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == name })
	if i < 0 {
		return &TemplateError{Container: c.Name, Problem: fmt.Sprintf(
			"lifecycle.preStop.httpGet.port is %q, and no port of the container has that name; add it to ports or give the number", name)}
	}
	get.Port = intstr.FromInt32(c.Ports[i].ContainerPort)
	return nil
}
