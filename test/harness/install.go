package harness

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// SystemNamespace is where the charts are installed.
const SystemNamespace = "workpulling-system"

// Images are what hack/images.sh built.
type Images struct {
	Repository    string
	AppRepository string
	Tag           string
}

// ReadImages reads dist/images.env below root.
func ReadImages(root string) (Images, error) {
	path := filepath.Join(root, "dist", "images.env")
	file, err := os.Open(path)
	if err != nil {
		return Images{}, fmt.Errorf("reading the names of the images, which hack/images.sh writes: %w", err)
	}
	defer file.Close()
	values := map[string]string{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if key, value, ok := strings.Cut(lines.Text(), "="); ok {
			values[key] = value
		}
	}
	images := Images{values["IMAGE_REPOSITORY"], values["APP_REPOSITORY"], values["IMAGE_TAG"]}
	if images.Repository == "" || images.AppRepository == "" || images.Tag == "" {
		return Images{}, errors.Join(fmt.Errorf("%s is not complete", path), lines.Err())
	}
	return images, lines.Err()
}

// Helm is the helm program: $HELM, by default helm.
func (k *Kubectl) helm(ctx context.Context, args ...string) error {
	program := os.Getenv("HELM")
	if program == "" {
		program = "helm"
	}
	k.say("$ helm " + strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = k.command(ctx).Env
	if out, err := cmd.CombinedOutput(); err != nil {
		return &CommandError{append([]string{"helm"}, args...), string(out), err}
	}
	return nil
}

// Install installs or upgrades both charts below root and waits until the operator is ready.
func (k *Kubectl) Install(ctx context.Context, root string, images Images, values ...string) error {
	common := []string{"upgrade", "--install", "--namespace", SystemNamespace, "--create-namespace", "--wait", "--timeout", "3m"}
	crds := slices.Concat(common, []string{"workpulling-crds", filepath.Join(root, "charts", "workpulling-crds")})
	if err := k.helm(ctx, crds...); err != nil {
		return err
	}
	operator := slices.Concat(common, []string{
		"workpulling", filepath.Join(root, "charts", "workpulling"),
		// As strings: a commit such as 14416e3 would be a number.
		"--set-string", "image.repository=" + images.Repository, "--set-string", "image.tag=" + images.Tag,
	})
	for _, value := range values {
		operator = append(operator, "--set", value)
	}
	return k.helm(ctx, operator...)
}

// Uninstall removes the operator, and the CRDs too where they were not kept.
func (k *Kubectl) Uninstall(ctx context.Context) error {
	return errors.Join(
		k.helm(ctx, "uninstall", "workpulling", "--namespace", SystemNamespace, "--wait"),
		k.helm(ctx, "uninstall", "workpulling-crds", "--namespace", SystemNamespace, "--wait"),
	)
}

// Overlay is what a user of the samples changes.
type Overlay struct {
	// Namespace replaces that of the samples; empty keeps it.
	Namespace string
	// PoolPatch is a JSON patch, in YAML, of every pool.
	PoolPatch string
}

// ApplySamples applies kustomizations below root with the images that were built, for example "config/samples".
func (k *Kubectl) ApplySamples(ctx context.Context, root string, images Images, overlay Overlay, samples ...string) error {
	directory, err := os.MkdirTemp(filepath.Join(root, "dist"), "overlay-")
	if err != nil {
		return fmt.Errorf("making an overlay: %w", err)
	}
	defer os.RemoveAll(directory)
	if err := os.WriteFile(filepath.Join(directory, "kustomization.yaml"), []byte(overlay.kustomization(images, samples)), 0o600); err != nil {
		return fmt.Errorf("writing an overlay: %w", err)
	}
	for _, sample := range samples {
		k.say("$ kubectl apply -k " + sample)
	}
	out, err := k.Get(ctx, "apply", "-k", directory)
	k.say(indent(strings.TrimSpace(out)))
	return err
}

func (o Overlay) kustomization(images Images, samples []string) string {
	var text strings.Builder
	if o.Namespace != "" {
		fmt.Fprintf(&text, "namespace: %q\n", o.Namespace)
	}
	text.WriteString("resources:\n")
	for _, sample := range samples {
		fmt.Fprintf(&text, "  - ../../%s\n", filepath.ToSlash(sample))
	}
	fmt.Fprintf(&text, "images:\n  - name: workpulling/sample-app\n    newName: %q\n    newTag: %q\n", images.AppRepository, images.Tag)
	if o.PoolPatch != "" {
		fmt.Fprintf(&text, "patches:\n  - target: {kind: WorkerPool}\n    patch: |-\n%s\n", indent(indent(indent(o.PoolPatch))))
	}
	return text.String()
}

// ApplyFile applies one file of the samples in another namespace, with the images that were built. edits are pairs of a text in the file
// and what takes its place; a text that is not there is an error.
func (k *Kubectl) ApplyFile(ctx context.Context, root string, images Images, namespace, file string, edits ...string) error {
	raw, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return fmt.Errorf("reading a sample: %w", err)
	}
	text := string(raw)
	for edit := range slices.Chunk(edits, 2) {
		if !strings.Contains(text, edit[0]) {
			return fmt.Errorf("%s does not hold %q", file, edit[0])
		}
		text = strings.ReplaceAll(text, edit[0], edit[1])
	}
	replace := strings.NewReplacer(
		"workpulling-samples-quota", namespace, "workpulling-samples", namespace,
		"workpulling/sample-app:dev", images.AppRepository+":"+images.Tag,
	)
	return k.Stream(ctx, strings.NewReader(replace.Replace(text)), nil, "-n", namespace, "apply", "-f", "-")
}
