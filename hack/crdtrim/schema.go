package main

// embedded are the fields whose type belongs to the core API.
var embedded = map[string]bool{"template": true, "resources": true}

// Upper bounds that a pod template gets. They are far above what a pod can use.
const (
	maxContainers = 64
	maxPorts      = 128
	maxVolumes    = 512
	maxNameLength = 63
	maxLabels     = 128
)

// trim walks a CRD and trims every embedded core type in it.
func trim(node any) {
	switch n := node.(type) {
	case map[string]any:
		properties, _ := n["properties"].(map[string]any)
		for name, schema := range properties {
			if field, ok := schema.(map[string]any); ok && embedded[name] {
				description, described := field["description"]
				dropRedundant(field)
				if described {
					field["description"] = description
				}
				boundTemplate(field)
			}
		}
		for _, child := range n {
			trim(child)
		}
	case []any:
		for _, child := range n {
			trim(child)
		}
	}
}

// dropRedundant removes from a schema and all below it the descriptions, and the
// list type atomic, which is the default. A property that is itself called
// description is a map and stays.
func dropRedundant(node any) {
	switch n := node.(type) {
	case map[string]any:
		if _, text := n["description"].(string); text {
			delete(n, "description")
		}
		if n["x-kubernetes-list-type"] == "atomic" {
			delete(n, "x-kubernetes-list-type")
		}
		for _, child := range n {
			dropRedundant(child)
		}
	case []any:
		for _, child := range n {
			dropRedundant(child)
		}
	}
}

// boundTemplate bounds what the CEL rules of a template walk over, and closes
// the one list that Kubernetes takes in running pods only. Closing it saves a
// quarter of the CRD.
func boundTemplate(template map[string]any) {
	closeList(template, "properties", "spec", "properties", "ephemeralContainers")
	for _, containers := range []string{"containers", "initContainers"} {
		bound(template, "maxItems", maxContainers, "properties", "spec", "properties", containers)
		bound(template, "maxLength", maxNameLength, "properties", "spec", "properties", containers, "items", "properties", "name")
		bound(template, "maxItems", maxPorts, "properties", "spec", "properties", containers, "items", "properties", "ports")
	}
	bound(template, "maxItems", maxVolumes, "properties", "spec", "properties", "volumes")
	bound(template, "maxLength", maxNameLength, "properties", "spec", "properties", "volumes", "items", "properties", "name")
	for _, keys := range []string{"labels", "annotations"} {
		bound(template, "maxProperties", maxLabels, "properties", "metadata", "properties", keys)
	}
}

// bound sets one limit of the schema at path, if there is such a schema.
func bound(schema map[string]any, limit string, value int, path ...string) {
	for _, step := range path {
		next, ok := schema[step].(map[string]any)
		if !ok {
			return
		}
		schema = next
	}
	schema[limit] = value
}

// closeList replaces the schema at path, if there is one, by a list that takes
// no item.
func closeList(schema map[string]any, path ...string) {
	for _, step := range path[:len(path)-1] {
		next, ok := schema[step].(map[string]any)
		if !ok {
			return
		}
		schema = next
	}
	last := path[len(path)-1]
	if _, ok := schema[last]; ok {
		schema[last] = map[string]any{
			"type":     "array",
			"maxItems": 0,
			"items":    map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
		}
	}
}
