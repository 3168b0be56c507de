# An AMI with the driver and the agent.
#   packer init aws.pkr.hcl && packer build -var region=us-east-1 aws.pkr.hcl
packer {
  required_plugins {
    amazon = {
      source  = "github.com/hashicorp/amazon"
      version = ">= 1.3.0"
    }
  }
}

variable "region" {
  type    = string
  default = "us-east-1"
}

variable "instance_type" {
  type        = string
  default     = "c7i.xlarge"
  description = "What the image is built on. It needs no GPU: the driver comes with the base image."
}

variable "package" {
  type        = string
  default     = "navarch"
  description = "What pip installs: a version, or the address of a wheel."
}

source "amazon-ebs" "agent" {
  region        = var.region
  instance_type = var.instance_type
  ssh_username  = "ubuntu"
  ami_name      = "navarch-agent-{{timestamp}}"

  source_ami_filter {
    owners      = ["amazon"]
    most_recent = true
    filters = {
      name                = "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04)*"
      virtualization-type = "hvm"
    }
  }

  # A forwarded request cannot fetch the builder's role.
  metadata_options {
    http_endpoint = "enabled"
    http_tokens   = "required"
  }
  imds_support = "v2.0"
}

build {
  sources = ["source.amazon-ebs.agent"]
  provisioner "shell" {
    script           = "${path.root}/install-agent.sh"
    environment_vars = ["NAVARCH_PACKAGE=${var.package}"]
  }
}
