package harness

import (
	"testing"

	"sigs.k8s.io/yaml"
)

func TestOverlayKeepsTagsThatLookLikeNumbers(t *testing.T) {
	images := Images{Repository: "r", AppRepository: "a/b", Tag: "14416e3"}
	text := Overlay{Namespace: "n", PoolPatch: "- op: add\n  path: /x"}.kustomization(images, []string{"config/samples"})
	var got struct {
		Namespace string
		Resources []string
		Images    []struct{ NewName, NewTag string }
		Patches   []struct{ Patch string }
	}
	if err := yaml.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if got.Images[0].NewTag != images.Tag || got.Images[0].NewName != images.AppRepository {
		t.Errorf("images are %+v", got.Images)
	}
	if got.Namespace != "n" || got.Resources[0] != "../../config/samples" || got.Patches[0].Patch != "- op: add\n  path: /x" {
		t.Errorf("overlay is %+v", got)
	}
}
