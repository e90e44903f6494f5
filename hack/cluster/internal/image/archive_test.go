package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWrite(t *testing.T) {
	program := filepath.Join(t.TempDir(), "p")
	if err := os.WriteFile(program, []byte("machine code"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := Program{Ref: "example.test/p:1", Executable: program, Entrypoint: "/p", User: "65532:65532"}
	var first, second bytes.Buffer
	for _, w := range []io.Writer{&first, &second} {
		if err := p.Write(w); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same input gave different archives")
	}
	outer := unpack(t, first.Bytes())
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(outer["manifest.json"], &manifest); err != nil || len(manifest) != 1 {
		t.Fatalf("manifest %s: %v", outer["manifest.json"], err)
	}
	if diff := cmp.Diff([]string{p.Ref}, manifest[0].RepoTags); diff != "" {
		t.Error(diff)
	}
	var config struct {
		Config struct {
			Entrypoint []string
			User       string
		}
	}
	if err := json.Unmarshal(outer[manifest[0].Config], &config); err != nil {
		t.Fatal(err)
	}
	if config.Config.User != p.User || !cmp.Equal(config.Config.Entrypoint, []string{"/p"}) {
		t.Errorf("config %+v", config)
	}
	inner := unpack(t, outer[manifest[0].Layers[0]])
	if diff := cmp.Diff(map[string][]byte{"p": []byte("machine code")}, inner); diff != "" {
		t.Error(diff)
	}
}

func unpack(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := r.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if out[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}
