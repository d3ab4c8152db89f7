# SPDX-License-Identifier: MIT
"""
A script for the Trainer of Hugging Face's transformers as people write them, for programs.py:
a data set class of its own, a small vision transformer, evaluation after each epoch.
"""

import glob
import os

import torch
import transformers
from PIL import Image
from torchvision import transforms

import programs_model


class Pictures(torch.utils.data.Dataset):
    """Images and labels as the model wants them; code of the user's own."""

    def __init__(self, directory, transform):
        self.paths = sorted(glob.glob(os.path.join(directory, "*", "*.jpg")))
        self.classes = sorted(os.listdir(directory))
        self.transform = transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        image = Image.open(path).convert("RGB")
        label = self.classes.index(os.path.basename(os.path.dirname(path)))
        return {"pixel_values": self.transform(image), "labels": label}


class Print(transformers.TrainerCallback):
    """What the Trainer logs, without the times."""

    def on_log(self, args, state, control, logs=None, **_):
        for name in ("loss", "grad_norm", "eval_loss"):
            if name in logs:
                print(state.global_step, name, float(logs[name]).hex())


def arguments():
    parser = programs_model.parser()
    parser.add_argument("--data-seed", type=int, help="of the order, instead of the seed")
    parser.add_argument("--output", default="output")
    return parser.parse_args()


def data_of(options):
    last = [transforms.ToTensor(), transforms.Normalize([0.5] * 3, [0.5] * 3)]
    augment = transforms.Compose([transforms.RandomResizedCrop(96),
                                  transforms.RandomHorizontalFlip(), *last])
    plain = transforms.Compose([transforms.Resize((96, 96)), *last])
    return (Pictures(os.path.join(options.data, "train"), augment),
            Pictures(os.path.join(options.data, "val"), plain))


def model_of():
    # No dropout: it would draw from the job's own generators.
    return transformers.ViTForImageClassification(transformers.ViTConfig(
        image_size=96, patch_size=16, hidden_size=48, num_hidden_layers=2,
        num_attention_heads=2, intermediate_size=96, num_labels=6,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))


def main():
    options = arguments()
    transformers.set_seed(0)  # the same weights at first, whatever the seed
    model = model_of()
    training, validation = data_of(options)
    trainer = transformers.Trainer(
        model=model, train_dataset=training, eval_dataset=validation, callbacks=[Print()],
        args=transformers.TrainingArguments(
            output_dir=options.output, seed=options.seed, data_seed=options.data_seed,
            num_train_epochs=options.epochs, per_device_train_batch_size=16,
            per_device_eval_batch_size=16, dataloader_num_workers=options.workers,
            eval_strategy="epoch",
            logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True,
            remove_unused_columns=False))
    trainer.train()
    print("weights", programs_model.digest(model))


if __name__ == "__main__":
    main()
