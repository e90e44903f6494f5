package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
)

// Program is an image of one layer that holds one static program.
type Program struct {
	Ref        string // name:tag
	Executable string // path on this machine
	Entrypoint string // path in the image, such as /pause
	User       string // such as 65532:65532; root if empty
}

// Write writes the archive that "docker save" would, which containerd and buildah read.
func (p Program) Write(w io.Writer) error {
	content, err := os.ReadFile(p.Executable)
	if err != nil {
		return fmt.Errorf("making image %s: %w", p.Ref, err)
	}
	var layer bytes.Buffer
	if err := writeFiles(&layer, file{name: p.Entrypoint[1:], mode: 0o755, content: content}); err != nil {
		return fmt.Errorf("making image %s: %w", p.Ref, err)
	}
	diffID := sha256.Sum256(layer.Bytes())
	type object = map[string]any
	config, err := json.Marshal(object{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       object{"Entrypoint": []string{p.Entrypoint}, "User": p.User},
		"rootfs":       object{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(diffID[:])}},
	})
	if err != nil {
		return fmt.Errorf("making image %s: %w", p.Ref, err)
	}
	configID := sha256.Sum256(config)
	configName := hex.EncodeToString(configID[:]) + ".json"
	manifest, err := json.Marshal([]object{{"Config": configName, "RepoTags": []string{p.Ref}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return fmt.Errorf("making image %s: %w", p.Ref, err)
	}
	return writeFiles(w,
		file{name: "layer.tar", mode: 0o644, content: layer.Bytes()},
		file{name: configName, mode: 0o644, content: config},
		file{name: "manifest.json", mode: 0o644, content: manifest})
}

type file struct {
	name    string
	mode    int64
	content []byte
}

// writeFiles leaves out all times, for the sake of the invariant.
func writeFiles(w io.Writer, files ...file) error {
	archive := tar.NewWriter(w)
	for _, f := range files {
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.content))}); err != nil {
			return err
		}
		if _, err := archive.Write(f.content); err != nil {
			return err
		}
	}
	return archive.Close()
}
