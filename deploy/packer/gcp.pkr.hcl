# An image for Compute Engine with the driver and the agent.
#   packer init gcp.pkr.hcl && packer build -var project=my-project gcp.pkr.hcl
packer {
  required_plugins {
    googlecompute = {
      source  = "github.com/hashicorp/googlecompute"
      version = ">= 1.1.4"
    }
  }
}

variable "project" {
  type = string
}

variable "zone" {
  type    = string
  default = "us-central1-a"
}

variable "source_family" {
  type        = string
  default     = "common-cu128-ubuntu-2204-nvidia-570"
  description = "A family of deeplearning-platform-release that has the driver in it."
}

variable "package" {
  type        = string
  default     = "navarch"
  description = "What pip installs: a version, or the address of a wheel."
}

source "googlecompute" "agent" {
  project_id              = var.project
  zone                    = var.zone
  machine_type            = "n2-standard-4"
  source_image_family     = var.source_family
  source_image_project_id = ["deeplearning-platform-release"]
  image_name              = "navarch-agent-{{timestamp}}"
  image_family            = "navarch-agent"
  disk_size               = 100
  ssh_username            = "packer"
  # Keys in the metadata and OS Login exclude each other.
  metadata = { enable-oslogin = "FALSE" }
}

build {
  sources = ["source.googlecompute.agent"]
  provisioner "shell" {
    script           = "${path.root}/install-agent.sh"
    environment_vars = ["NAVARCH_PACKAGE=${var.package}"]
  }
}
