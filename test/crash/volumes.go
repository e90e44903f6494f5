package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/test/integration/environment"
)

// errNotYet says that an object which a pod mounts is not there yet.
var errNotYet = errors.New("not there yet")

// objects is what volumes are made of: the ConfigMaps and Secrets of a namespace.
type objects struct {
	configMaps map[string]map[string]string
	secrets    map[string]map[string][]byte
}

func readObjects(ctx context.Context, c client.Client, namespace string) (objects, error) {
	out := objects{map[string]map[string]string{}, map[string]map[string][]byte{}}
	var configMaps corev1.ConfigMapList
	var secrets corev1.SecretList
	if err := errors.Join(c.List(ctx, &configMaps, client.InNamespace(namespace)), c.List(ctx, &secrets, client.InNamespace(namespace))); err != nil {
		return out, fmt.Errorf("reading what pods mount: %w", err)
	}
	for _, m := range configMaps.Items {
		out.configMaps[m.Name] = m.Data
	}
	for _, s := range secrets.Items {
		out.secrets[s.Name] = s.Data
	}
	return out, nil
}

// volumes are the directories of one pod's volumes.
type volumes struct {
	client client.Client
	pod    *corev1.Pod
	dir    string // of this pod
	claims string // directory of the volumes that outlive pods
	due    map[string]time.Time
}

// path is the directory of a volume.
func (v *volumes) path(volume corev1.Volume) string {
	if claim := volume.PersistentVolumeClaim; claim != nil {
		return filepath.Join(v.claims, claim.ClaimName)
	}
	return filepath.Join(v.dir, "volumes", volume.Name)
}

// write brings the files of every volume up to date, as kubelet does again and again.
func (v *volumes) write(ctx context.Context, from objects) error {
	for _, volume := range v.pod.Spec.Volumes {
		dir := v.path(volume)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("making volume %s: %w", volume.Name, err)
		}
		if err := v.fill(ctx, dir, volume.VolumeSource, from); err != nil {
			return fmt.Errorf("filling volume %s: %w", volume.Name, err)
		}
	}
	return nil
}

func (v *volumes) fill(ctx context.Context, dir string, source corev1.VolumeSource, from objects) error {
	switch {
	case source.ConfigMap != nil:
		return v.configMap(dir, source.ConfigMap.Name, source.ConfigMap.Items, source.ConfigMap.Optional, from)
	case source.Secret != nil:
		return v.secret(dir, source.Secret.SecretName, source.Secret.Items, source.Secret.Optional, from)
	case source.Projected != nil:
		for _, s := range source.Projected.Sources {
			if err := v.projection(ctx, dir, s, from); err != nil {
				return err
			}
		}
		return nil
	case source.EmptyDir != nil, source.PersistentVolumeClaim != nil:
		return nil
	}
	return errors.New("this kind of volume is not known here")
}

func (v *volumes) projection(ctx context.Context, dir string, source corev1.VolumeProjection, from objects) error {
	switch {
	case source.ServiceAccountToken != nil:
		return v.token(ctx, filepath.Join(dir, source.ServiceAccountToken.Path), source.ServiceAccountToken)
	case source.ConfigMap != nil:
		return v.configMap(dir, source.ConfigMap.Name, source.ConfigMap.Items, source.ConfigMap.Optional, from)
	case source.Secret != nil:
		return v.secret(dir, source.Secret.Name, source.Secret.Items, source.Secret.Optional, from)
	case source.DownwardAPI != nil:
		for _, item := range source.DownwardAPI.Items {
			if err := replaceFile(filepath.Join(dir, item.Path), []byte(fieldOf(v.pod, item.FieldRef.FieldPath))); err != nil {
				return err
			}
		}
		return nil
	}
	return errors.New("this kind of projection is not known here")
}

func (v *volumes) configMap(dir, name string, items []corev1.KeyToPath, optional *bool, from objects) error {
	data, ok := from.configMaps[name]
	if !ok {
		return missing("ConfigMap", name, optional)
	}
	content := map[string][]byte{}
	for key, text := range data {
		content[key] = []byte(text)
	}
	return files(dir, items, content)
}

func (v *volumes) secret(dir, name string, items []corev1.KeyToPath, optional *bool, from objects) error {
	data, ok := from.secrets[name]
	if !ok {
		return missing("Secret", name, optional)
	}
	return files(dir, items, data)
}

func missing(kind, name string, optional *bool) error {
	if ptr.Deref(optional, false) {
		return nil
	}
	return fmt.Errorf("%s %s: %w", kind, name, errNotYet)
}

func files(dir string, items []corev1.KeyToPath, content map[string][]byte) error {
	if items == nil {
		for key := range content {
			items = append(items, corev1.KeyToPath{Key: key, Path: key})
		}
	}
	for _, item := range items {
		text, ok := content[item.Key]
		if !ok {
			return fmt.Errorf("key %s: %w", item.Key, errNotYet)
		}
		if err := replaceFile(filepath.Join(dir, item.Path), text); err != nil {
			return err
		}
	}
	return nil
}

// token writes a token that is bound to the pod, and a new one when four fifths of its life are over.
func (v *volumes) token(ctx context.Context, path string, source *corev1.ServiceAccountTokenProjection) error {
	if time.Now().Before(v.due[path]) {
		return nil
	}
	life := time.Duration(ptr.Deref(source.ExpirationSeconds, 3600)) * time.Second
	spec := authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ptr.To(int64(life / time.Second)),
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: v.pod.Name, UID: v.pod.UID},
	}
	if source.Audience != "" {
		spec.Audiences = []string{source.Audience}
	}
	account := v.pod.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	token, err := environment.RequestToken(ctx, v.client, v.pod.Namespace, account, spec)
	if err != nil {
		return err
	}
	if err := replaceFile(path, []byte(token)); err != nil {
		return err
	}
	v.due[path] = time.Now().Add(life * 4 / 5)
	return nil
}

// replaceFile swaps a file for one with new content, if it is new.
func replaceFile(path string, content []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// root makes the directory that a container takes for its file system: links from mount paths to volumes.
func (v *volumes) root(container corev1.Container) (string, error) {
	root := filepath.Join(v.dir, container.Name)
	byName := map[string]string{}
	for _, volume := range v.pod.Spec.Volumes {
		byName[volume.Name] = v.path(volume)
	}
	for _, mount := range container.VolumeMounts {
		link := filepath.Join(root, mount.MountPath)
		if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
			return "", fmt.Errorf("making the file system of %s: %w", container.Name, err)
		}
		if err := os.Symlink(filepath.Join(byName[mount.Name], mount.SubPath), link); err != nil {
			return "", fmt.Errorf("mounting %s: %w", mount.Name, err)
		}
	}
	return root, nil
}

// fieldOf is the downward API.
func fieldOf(pod *corev1.Pod, path string) string {
	switch path {
	case "metadata.name":
		return pod.Name
	case "metadata.namespace":
		return pod.Namespace
	case "metadata.uid":
		return string(pod.UID)
	case "status.podIP":
		return pod.Status.PodIP
	case "spec.nodeName":
		return pod.Spec.NodeName
	}
	return ""
}
